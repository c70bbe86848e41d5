# The same look by the tools of a shell: its environment, that of everybody it can see, and what is on disk.
word=CAN; word=${word}ARY-
export word
# On a host that hides nothing a look would take for ever.
look() { printf 'attempt\t%s\t%s\n' "$1" "$(timeout 1 sh -c "$2" 2>/dev/null | grep -ac -- "$word[0-9a-f]\{32\}")"; }
# One that must be found, to know that the look is a good one.
DECOY=${word}00000000000000000000000000000000 sleep 9 &
look "decoy" "sleep 0.1; cat /proc/$!/environ"
kill $!; wait $! 2>/dev/null
look "environment" 'env; set'
look "environments of all" 'cat /proc/[0-9]*/environ | tr "\0" "\n"'
look "words of all" 'cat /proc/[0-9]*/cmdline | tr "\0" "\n"'
look "descriptors" 'ls -l /proc/[0-9]*/fd'
look "files" 'find / -xdev -maxdepth 4 -type f \( -path "/proc*" -prune -o -newer /etc/hostname -print0 \) | head -c 1000000 | xargs -0 grep -ahs "$word"'
look "scratch" 'grep -rahs "$word" /workspace /tmp /var /run /dev/shm /build /etc /root /home /srv /opt /mnt /media'
look "names" 'ls -R /workspace /tmp /var /run /dev/shm /build /etc'
look "mounts" 'cat /proc/self/mountinfo /proc/self/mountstats'
