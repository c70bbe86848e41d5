#!/bin/sh
# What sandboxd must do on a kernel with cgroup v2. Runs as root inside the machine that `run` boots,
# writes `ok NAME` or `not ok NAME: why` per check and the count at the end. The first block asks
# whether the guest kernel is fit for the rest; a failure there is no fault of sandboxd.
# The programs below are in single quotes on purpose, their variables are for the shell inside.
# shellcheck disable=SC2016,SC2086,SC2154

PLANNED=69

cgroups=/sys/fs/cgroup
work=$(mktemp -d)
passed=0
failed=0

# The places sandboxd is started from. In a .scope it runs beside a shell, elsewhere alone.
BARE=.                                            # the root cgroup, before anything is set up
ROOT=user.slice/user-0.slice/session-1.scope      # root's login
PLAIN=user.slice/user-1000/session-2.scope        # a user's login, nothing delegated
DELEGATED=user.slice/user-1000/app/shell.scope    # in a subtree that belongs to the user
SERVICE=system.slice/unit.service                 # a unit with User= and Delegate=yes

USER_IDS='--reuid 1000 --regid 1000 --clear-groups'
LIMIT=67108864                                    # bytes, what `--memory 64M` means

EAT='x=xxxxxxxx; while :; do x=$x$x; done'
SPIN='while :; do :; done'
TREE='sleep 4242 & (setsid sleep 4242 &); sleep 4242'
SIXTY='i=0; while [ $i -lt 60 ]; do sleep 2 & i=$((i+1)); done; wait; echo all sixty'
LOOK='cat /proc/self/cgroup; ls /sys/fs/cgroup'
# Each child keeps within the limit, together they do not: only a limit on the whole tree sees it.
EAT_TOGETHER='
import os, time
for _ in range(4):
    if os.fork() == 0:
        kept = b"x" * (28 << 20)
        time.sleep(3)
        os._exit(0)
if any([os.wait()[1] for _ in range(4)]):
    raise SystemExit(1)
print("all lived")
'
BOMB='
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
'

# Turns the record of a run into shell assignments; what is not there reads `absent`.
READ='
import json, shlex, sys
try:
    record = json.load(open(sys.argv[1]))
except ValueError as error:
    print("no JSON record:", error, file=sys.stderr)
    record = {}
for path in sys.argv[2:]:
    value = record
    for key in path.split("."):
        value = value.get(key, "absent") if isinstance(value, dict) else "absent"
    text = value.strip() if isinstance(value, str) else json.dumps(value)
    print(key + "=" + shlex.quote(text))
'

begin() {
    name=$1 why=''
    : >"$work/errors"
}

fail() {
    why="${why:+$why; }$1"
}

end() {
    if [ -z "$why" ]; then
        passed=$((passed + 1))
        echo "ok $name"
    else
        failed=$((failed + 1))
        said=$(tail -n 3 "$work/errors")
        printf 'not ok %s: %s\n' "$name" "$(echo "$why${said:+; stderr: $said}" | tr '\n' ' ')"
    fi
}

# kernel NAME COMMAND...: a check that passes when the command does
kernel() {
    begin "kernel: $1"
    shift
    "$@" >/dev/null 2>"$work/errors" || fail 'not usable'
    end
}

now() {
    read -r uptime _ </proc/uptime
    echo "${uptime%.*}"
}

as_user() {
    setpriv $USER_IDS -- "$@"
}

# enter WHO PLACE COMMAND...: run a command as `root` or `user` in the cgroup of that place
enter() (
    who=$1 place=$2
    shift 2
    echo 0 >"$cgroups/$place/cgroup.procs" || exit 99
    case $place in
    *.scope) set -- sh -c '"$@"; exit $?' sh "$@" ;;
    esac
    # By exec, so that a service is alone in its cgroup.
    if [ "$who" = user ]; then
        export HOME=/home/user XDG_RUNTIME_DIR=/run/user/1000
        set -- setpriv $USER_IDS -- "$@"
    fi
    cd "$HOME" && exec "$@"
)

# sandbox WHO PLACE OPTIONS...: one `sandboxd run`; sets $code, $took (seconds) and a variable for
# each field of the record that the checks look at
sandbox() {
    rm -f "$work/code"
    since=$(now)
    (
        who=$1 place=$2
        shift 2
        enter "$who" "$place" sandboxd run --json "$@" </dev/null >"$work/record" 2>"$work/errors"
        echo $? >"$work/code"
    ) &
    until [ -s "$work/code" ]; do
        sleep 0.1
        [ $(($(now) - since)) -lt 25 ] && continue
        fail 'sandboxd did not end within 25 s'
        pidof sandboxd | xargs kill -9
        wait $!
    done
    took=$(($(now) - since))
    code=$(cat "$work/code")
    eval "$(python3 -IS -c "$READ" "$work/record" status exit_code stdout stderr \
        isolation.cgroup isolation.degraded \
        metrics.memory_peak_bytes metrics.cpu_time_ms metrics.processes_peak 2>>"$work/errors")"
}

exits() {
    [ "$code" = "$1" ] || fail "exit code $code, not $1"
}

# is FIELD VALUE
is() {
    eval "value=\$$1"
    [ "$value" = "$2" ] || fail "$1 is \`$value\`, not \`$2\`"
}

# has FIELD PATTERN, has_not FIELD PATTERN
has() {
    eval "value=\$$1"
    echo "$value" | grep -Eqi -e "$2" || fail "$1 is \`$value\`, without \`$2\`"
}

has_not() {
    eval "value=\$$1"
    echo "$value" | grep -Eqi -e "$2" && fail "$1 is \`$value\`, with \`$2\`"
}

# within FIELD LOW HIGH
within() {
    eval "value=\${$1%.*}"
    case $value in
    '' | *[!0-9]*) fail "$1 is \`$value\`, not a number" ;;
    *) [ "$value" -ge "$2" ] && [ "$value" -le "$3" ] || fail "$1 is $value, not within $2 and $3" ;;
    esac
}

# new_processes: those that are neither kernel threads nor part of this harness
new_processes() {
    for entry in /proc/[0-9]*/stat; do
        { read -r pid comm state parent _ <"$entry"; } 2>/dev/null || continue
        [ "$pid" -le 2 ] || [ "$parent" = 2 ] || [ "$comm" = '(checks.sh)' ] || echo "$pid $comm $state"
    done
}

sleepers() {
    new_processes | grep '(sleep)' | while read -r pid _; do
        [ "$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")" = 'sleep 4242 ' ] && echo "$pid"
    done
}

all_cgroups() {
    find "$cgroups" -type d 2>/dev/null
}

# remember: what is there now is not new
remember() {
    all_cgroups >"$work/cgroups"
    cat /proc/mounts >"$work/mounts"
}

new_cgroups() {
    all_cgroups | grep -vxFf "$work/cgroups"
}

new_mounts() {
    grep -vxFf "$work/mounts" /proc/mounts
}

# gone LISTING: whether a listing becomes empty within five seconds; $left is what it last said
gone() {
    for _ in $(seq 10); do
        left=$("$1")
        [ -z "$left" ] && return 0
        sleep 0.5
    done
    return 1
}

# nothing_left NAME: three checks; a thing left behind is told once
nothing_left() {
    for what in processes cgroups mounts; do
        begin "$1: no $what are left"
        gone "new_$what" || fail "$left"
        end
    done
    new_processes | cut -d' ' -f1 | xargs -r kill -9
    remember
}

# interrupt SIGNAL: send it to a sandboxd in the middle of a run
interrupt() {
    rm -f "$work/pid"
    enter root "$ROOT" sh -c 'echo $$ >"$0"; exec sandboxd run --language sh --timeout 60s -c "$1"' \
        "$work/pid" "$TREE" </dev/null >/dev/null 2>"$work/errors" &
    for _ in $(seq 20); do
        [ "$(sleepers | wc -l)" -ge 3 ] && break
        sleep 0.5
    done
    [ "$(sleepers | wc -l)" -ge 3 ] || fail 'the program never ran'
    kill -"$1" "$(cat "$work/pid")"
    gone new_processes || fail "still there: $left"
}

# visit NAME OPTIONS...: run a program in the session of `programs_at_once`; what it said, its record and its code are kept
visit() {
    name_of_visit=$1
    shift
    sandboxd session exec wide --language sh --timeout 60s --json "$@" </dev/null >"$work/$name_of_visit" 2>>"$work/errors"
    echo $? >"$work/$name_of_visit.code"
}

# Programs of one session that run at once: they meet, and the memory of one is not taken from another.
programs_at_once() {
    begin 'root: programs of a session at once'
    export SANDBOXD_SERVER="unix:$work/socket"
    enter root "$ROOT" sh -c 'echo $$ >"$0"; exec sandboxd serve --set pool.enabled=false "$@"' "$work/pid" \
        --unix-socket "$work/socket" --state-dir "$work/state" </dev/null >/dev/null 2>"$work/served" &
    served=$!
    for _ in $(seq 120); do
        grep -q '"ready"' "$work/served" && break
        sleep 0.5
    done
    SANDBOXD_TOKEN=$(cat "$work/state/token")
    export SANDBOXD_TOKEN
    sandboxd session create wide --language sh --max-concurrent 2 --memory 64M >/dev/null 2>"$work/errors" ||
        fail 'no session'
    meet='touch $1; until [ -e $2 ]; do sleep 0.1; done; echo met'
    visit one -c "$meet" -- a b &
    one=$!
    visit two -c "$meet" -- b a
    wait $one
    for n in one two; do
        eval "$(python3 -c "$READ" "$work/$n" stdout metrics.cpu_time_ms metrics.memory_peak_bytes)"
        is stdout met
        within cpu_time_ms 1 10000
        within memory_peak_bytes 65536 $LIMIT
    done
    end

    begin 'root: out of memory beside another program'
    visit calm -c 'touch c; until [ -e d ]; do sleep 0.1; done; sleep 1; echo calm' &
    calm=$!
    visit eats -c "until [ -e c ]; do sleep 0.1; done; $EAT"
    visit last -c 'touch d'
    wait $calm
    eval "$(python3 -c "$READ" "$work/eats" status)"
    is status out_of_memory
    eval "$(python3 -c "$READ" "$work/calm" status stdout)"
    is status success
    is stdout calm
    kill "$(cat "$work/pid")"
    wait "$served"
    end
    unset SANDBOXD_SERVER SANDBOXD_TOKEN
}

# give CGROUP: hand a cgroup to the user the way systemd delegates
give() {
    for file in . cgroup.procs cgroup.subtree_control cgroup.threads; do
        chown 1000:1000 "$cgroups/$1/$file"
    done
}

# like_systemd: the cgroups of a machine with one root login, one user login and one service
like_systemd() {
    cd "$cgroups" || exit 1
    mkdir -p init.scope "$ROOT" "$PLAIN" user.slice/user-1000/app "$SERVICE"
    for pid in 1 $$; do
        echo $pid >init.scope/cgroup.procs
    done
    for slice in . user.slice user.slice/user-0.slice user.slice/user-1000 system.slice; do
        echo '+cpu +io +memory +pids' >"$slice/cgroup.subtree_control"
    done
    give user.slice/user-1000/app
    as_user sh -c 'echo "+cpu +memory +pids" >user.slice/user-1000/app/cgroup.subtree_control'
    as_user mkdir "$DELEGATED"
    give "$SERVICE"
    cd /
}

# restart_service: what systemd does between two runs of a unit; it must be empty by then
restart_service() {
    grep -q 'populated 0' "$cgroups/$SERVICE/cgroup.events" || fail 'a process is left in the unit'
    find "$cgroups/$SERVICE" -depth -type d -exec rmdir {} \;
    mkdir "$cgroups/$SERVICE"
    give "$SERVICE"
}

kernel_checks() {
    kernel 'cgroup v2 and no v1' sh -c 'grep -q " cgroup2 " /proc/mounts && ! grep -q " cgroup " /proc/mounts'
    mkdir "$cgroups/probe"
    echo '+cpu +io +memory +pids' >"$cgroups/cgroup.subtree_control"
    for file in cgroup.kill cpu.max io.max memory.max memory.peak memory.oom.group pids.max pids.peak; do
        kernel "cgroup file $file" test -e "$cgroups/probe/$file"
    done
    echo '-cpu -io -memory -pids' >"$cgroups/cgroup.subtree_control"
    rmdir "$cgroups/probe"
    kernel 'user namespaces' unshare -U true
    kernel 'user namespaces for plain users' as_user unshare -Ur true
    kernel 'pid namespace with its own proc' as_user unshare -Urmpf mount -t proc proc /proc
    kernel 'network namespace with loopback' as_user unshare -Urn sh -c 'ip link set lo up && ping -c 1 127.0.0.1'
    kernel 'loopback' ping -c 1 127.0.0.1
    kernel 'tmpfs with a size' unshare -m sh -c 'mount -t tmpfs -o size=64k t /mnt && ! head -c 1M /dev/zero >/mnt/x'
    overlay='mount -t tmpfs t /mnt && cd /mnt && mkdir l u w m && echo old >l/f &&
        mount -t overlay -o "$0lowerdir=l,upperdir=u,workdir=w" o m && echo new >m/f && grep -q old l/f'
    kernel 'overlayfs' unshare -m sh -c "$overlay" ''
    kernel 'overlayfs for plain users' as_user unshare -Urm sh -c "$overlay" userxattr,
    kernel 'pivot_root' as_user unshare -Urm sh -c \
        'mount -t tmpfs t /mnt && cd /mnt && mkdir old && pivot_root . old'
    kernel 'seccomp filters' grep -qw user_notif /proc/sys/kernel/seccomp/actions_avail
    kernel 'landlock' python3 -IS -c 'import ctypes; raise SystemExit(ctypes.CDLL(None).syscall(444, 0, 0, 1) < 1)'
}

# hello NAME WHO PLACE: leaves the check open for more questions; the caller ends it
hello() {
    begin "$1: hello"
    sandbox "$2" "$3" --language sh -c 'echo hi'
    exits 0
    is status success
    is exit_code 0
    is stdout hi
    is cgroup v2
}

memory_limit() {
    begin "$1: memory limit"
    sandbox "$2" "$3" --language sh --memory 64M -c "$EAT"
    exits 137
    is status out_of_memory
    # The kernel may charge a few pages of its own beyond the limit.
    within memory_peak_bytes $((LIMIT / 2)) $((LIMIT + 1048576))
    end
}

memory_limit_of_tree() {
    begin "$1: memory limit on the whole tree"
    sandbox "$2" "$3" --language python --memory 64M -c "$EAT_TOGETHER"
    has status 'out_of_memory|failed'
    has_not stdout 'all lived'
    within memory_peak_bytes $((LIMIT / 2)) $((LIMIT + 1048576))
    end
}

process_limit() {
    begin "$1: process limit"
    sandbox "$2" "$3" --language sh --pids 20 --timeout 10s -c "$SIXTY"
    has_not stdout 'all sixty'
    [ "$status" = process_limit ] || has stderr 'fork|temporarily unavailable'
    # The processes of the sandbox itself may come on top.
    within processes_peak 10 24
    end
}

timeout_kills() {
    begin "$1: timeout kills the whole tree"
    sandbox "$2" "$3" --language sh --timeout 1s -c "$TREE"
    exits 124
    is status timed_out
    within took 1 15
    gone sleepers || fail "still sleeping: $left"
    end
}

root_checks() {
    hello root root "$ROOT"
    is degraded '[]'
    end

    begin 'root: usage is measured'
    sandbox root "$ROOT" --language sh -c 'sleep 0.2 & sleep 0.2 & wait'
    within memory_peak_bytes 65536 $((LIMIT * 4))
    within processes_peak 3 12
    within cpu_time_ms 1 10000
    end

    begin 'root: exit code of the program'
    sandbox root "$ROOT" --language sh -c 'echo no >&2; exit 7'
    exits 7
    is status failed
    is exit_code 7
    is stderr no
    end

    begin 'root: python'
    sandbox root "$ROOT" --language python -c 'print(6 * 7)'
    exits 0
    is stdout 42
    end

    begin 'root: the program sees no cgroup of the host'
    sandbox root "$ROOT" --language sh -c "$LOOK"
    has_not stdout 'slice|scope|sandboxd|cgroup\.procs'
    end

    memory_limit root root "$ROOT"
    memory_limit_of_tree root root "$ROOT"
    process_limit root root "$ROOT"

    begin 'root: fork bomb'
    sandbox root "$ROOT" --language python --pids 20 --timeout 3s -c "$BOMB"
    has status 'timed_out|process_limit'
    within processes_peak 10 24
    within took 0 20
    gone new_processes || fail "still there: $left"
    end

    hello 'root: after the fork bomb' root "$ROOT"
    end

    programs_at_once

    begin 'root: half a cpu'
    sandbox root "$ROOT" --language sh --cpus 0.5 --timeout 2s -c "$SPIN"
    exits 124
    within cpu_time_ms 400 1300
    end

    # The counterpart: without it a slow machine could pass the check above.
    begin 'root: a whole cpu'
    sandbox root "$ROOT" --language sh --cpus 1 --timeout 2s -c "$SPIN"
    exits 124
    within cpu_time_ms 1400 2600
    end

    timeout_kills root root "$ROOT"

    begin 'root: two at once'
    enter root "$ROOT" sandboxd run --language sh --memory 64M --timeout 5s -c "$EAT; $SPIN" \
        </dev/null >/dev/null 2>&1 &
    sandbox root "$ROOT" --language sh --memory 64M -c 'sleep 1; echo hi'
    exits 0
    is stdout hi
    wait
    end

    begin 'root: SIGTERM ends the run'
    interrupt TERM
    end
    nothing_left root

    begin 'root: SIGKILL ends the run'
    interrupt KILL
    end
    hello 'root: after SIGKILL' root "$ROOT"
    end
    nothing_left 'root: after SIGKILL'
}

plain_checks() {
    begin 'plain user: hello'
    sandbox user "$PLAIN" --language sh -c 'echo hi'
    exits 0
    is stdout hi
    is cgroup none
    has degraded cgroup
    end

    timeout_kills 'plain user' user "$PLAIN"
    nothing_left 'plain user'
}

delegated_checks() {
    hello 'delegated user' user "$DELEGATED"
    has_not degraded cgroup
    end
    memory_limit 'delegated user' user "$DELEGATED"
    memory_limit_of_tree 'delegated user' user "$DELEGATED"
    process_limit 'delegated user' user "$DELEGATED"
    timeout_kills 'delegated user' user "$DELEGATED"
    nothing_left 'delegated user'
}

service_checks() {
    hello 'delegated service' user "$SERVICE"
    has_not degraded cgroup
    restart_service
    end
    memory_limit 'delegated service' user "$SERVICE"
    begin 'delegated service: nothing runs on'
    restart_service
    end
    nothing_left 'delegated service'
}

kernel_checks

# Before anything set the hierarchy up, as under an init that knows no cgroups.
remember
hello 'bare hierarchy' root "$BARE"
is degraded '[]'
end
nothing_left 'bare hierarchy'

like_systemd
remember
root_checks
plain_checks
delegated_checks
service_checks

begin 'kernel: no complaint in its log'
dmesg | grep -E 'BUG:|WARNING:|Oops|hung task' >"$work/errors" && fail 'it has some'
end

echo "$passed passed, $failed failed"
