# Looking for a mistake, in the profile that is for it: a debugger on a running program and on a crash, a tracer of calls.
set -euo pipefail
cd /tmp
cat > bug.c << 'C'
#include <stdio.h>
#include <stdlib.h>
static int depth(int n) { return n == 0 ? *(volatile int *)0 : depth(n - 1) + 1; }
int main(int argc, char **argv) {
    if (argc > 1) return depth(atoi(argv[1]));
    int sum = 0;
    for (int i = 0; i < 10; i++) sum += i;
    printf("%d\n", sum);
}
C
gcc -g -O0 -o bug bug.c
gdb -q -batch -nx -iex 'set debuginfod enabled off' -ex run -ex backtrace --args ./bug 3 > crash 2>&1
grep SIGSEGV crash > /dev/null && [ "$(grep -c 'in depth (n=' crash)" -ge 3 ] && grep 'main (argc=2' crash > /dev/null
gdb -q -batch -nx -iex 'set debuginfod enabled off' -ex 'break bug.c:8' -ex run -ex 'print sum' -ex 'set var sum = 99' -ex continue ./bug > session 2>&1
grep '\$1 = 45' session > /dev/null && grep -x 99 session > /dev/null
sleep 60 & sleeper=$!
gdb -q -batch -nx -iex 'set debuginfod enabled off' -p $sleeper -ex 'print $pc' -ex detach > attached 2>&1 && grep '^\$1 = ' attached > /dev/null
kill $sleeper
strace -f -o trace -e trace=execve,openat sh -c 'cat bug.c > /dev/null; true'
[ "$(grep -c 'execve(' trace)" -ge 2 ] && grep 'bug.c' trace > /dev/null
strace -c -o counts ls / > /dev/null && grep total counts > /dev/null
echo done
