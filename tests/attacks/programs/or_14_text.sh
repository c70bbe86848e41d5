# Text in pipelines: find, xargs, sed, awk, grep, sort, uniq, cut, tr, paste, join, comm, diff, head, tail, tee, split.
set -euo pipefail
is() { [ "$(cat)" = "$1" ]; }
cd /tmp
mkdir -p tree/{a,b,c}
for n in $(seq 200); do echo "line $n of $((n % 7))" > "tree/$(printf 'abc' | cut -c $((n % 3 + 1)))/file $n.txt"; done
[ "$(find tree -type f -name '*.txt' | wc -l)" = 200 ]
find tree -type f -print0 | xargs -0 -P 4 -n 20 cat | sort -k2,2n > all
[ "$(awk '{ sum[$4] += $2 } END { print sum[3] }' all)" = "$(awk '$4 == 3 { s += $2 } END { print s }' all)" ]
[ "$(sed -n 's/^line \([0-9]*\) of 6$/\1/p' all | paste -sd+ | bc)" = 2814 ]
[ "$(cut -d' ' -f4 all | sort | uniq -c | sort -rn | sed -n 1p | tr -s ' ' | cut -d' ' -f2)" = 29 ]
join <(seq 10 | sort) <(seq 5 15 | sort) | wc -l | is 6
comm -12 <(sort all) <(head -n 10 all | sort) | wc -l | is 10
diff <(tac all | tac) all
seq 1000 | split -l 100 - part. && [ "$(ls part.* | wc -l)" = 10 ]
seq 5 | tee >(wc -l > count) > /dev/null; until [ -s count ]; do sleep 0.05; done; grep -qx 5 count
printf 'b\na\n' | sort -o sorted && [ "$(head -c 1 sorted)" = a ]
sed -i 's/line/LINE/' all && grep -c '^LINE' all | is 200
[ "$(printf 'ABC' | tr A-Z a-z | rev)" = cba ]
printf '%s\n' {1..50} | xargs -n 5 -P 8 sh -c 'echo "$@"' sh | wc -w | is 50
mkfifo pipe; (seq 3 > pipe &); [ "$(paste -sd, pipe)" = 1,2,3 ]
[ "$(date -u -d @0 +%Y-%m-%dT%H:%M:%S)" = 1970-01-01T00:00:00 ]
echo 'a=1; b=$((a + 1)); echo $b' | bash | is 2
(sleep 30 & wait) & kill $!; wait $! || [ $? = 143 ]
trap 'echo done' EXIT
