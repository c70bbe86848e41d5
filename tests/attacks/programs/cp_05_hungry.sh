# A hundred processes that take every bit of processor time there is, and start quickly.
printf 'attempt\tbegin\thungry\n'
n=0
while [ $n -lt 100 ]; do
    (while :; do :; done) &
    n=$((n + 1))
done
wait
