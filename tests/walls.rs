//! What a program finds around it: no rights, no neighbours, no network, nothing of the host.
#![cfg(test)]

mod support;

use std::collections::HashSet;
use std::net::TcpListener;
use support::{Record, Running, Sandboxd, host};

fn everybody(code: &str, check: impl Fn(&Sandboxd, &Record)) {
    for who in Sandboxd::everybody() {
        check(&who, &who.run("python", code).json());
    }
}

/// Everybody says exactly this.
fn says(code: &str, wanted: &str) {
    everybody(code, |_, record| {
        record.is("success").says(wanted).exits(0);
    });
}

/// A program of a few processes that waits to be looked at.
fn waiting(who: &Sandboxd) -> Running {
    let code = "import os, threading, time\nos.fork()\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('ready', flush=True)\ntime.sleep(60)";
    let running = who.run("python", code).start();
    running.until_it_says("ready\nready\n");
    running
}

/// Processes of a sandbox, PID 1 first, as the host sees them.
fn inhabitants(running: &Running) -> Vec<u32> {
    let below = host::descendants(running.pid());
    let inside: Vec<u32> = below
        .into_iter()
        .filter(|pid| host::status(*pid, "NSpid").is_some_and(|ids| ids.split_whitespace().count() > 1))
        .collect();
    let pids: Vec<Option<u32>> = inside.iter().map(|pid| host::inner_pid(*pid)).collect();
    assert!(inside.len() >= 3 && pids[0] == Some(1), "PID 1 and two processes, not {pids:?}");
    inside
}

#[test]
fn nobody_inside_is_root_outside_and_no_two_sandboxes_share_a_uid() {
    let Some(root) = Sandboxd::root() else { return };
    let five: Vec<Running> = (0..5).map(|_| waiting(&root)).collect();
    let mut seen = HashSet::new();
    for running in &five {
        let pids = inhabitants(running);
        let uids: HashSet<u32> = pids.iter().flat_map(|pid| host::uids(*pid)).collect();
        let gids: HashSet<String> = pids.iter().flat_map(|pid| host::status(*pid, "Gid")).collect();
        assert!(uids.iter().all(|uid| *uid >= 2_010_000_000), "outside uids {uids:?}");
        assert!(
            gids.iter().all(|gids| gids.split_whitespace().all(|gid| gid != "0")),
            "outside gids {gids:?}"
        );
        assert!(
            pids.iter().all(|pid| host::status(*pid, "Groups").as_deref() == Some("")),
            "no groups of the host"
        );
        // PID 1 is somebody else than the program, so the program cannot touch it.
        assert_eq!(uids.len(), 2, "one uid for PID 1 and one for the program");
        let (init, user) = (host::uids(pids[0])[0], host::uids(pids[1])[0]);
        assert_ne!(init, user);
        for uid in uids {
            assert!(seen.insert(uid), "uid {uid} belongs to two sandboxes at once");
        }
    }
}

#[test]
fn everything_inside_is_stripped_and_filtered() {
    for who in Sandboxd::everybody() {
        let running = waiting(&who);
        for pid in inhabitants(&running).into_iter().skip(1) {
            let is = |field: &str, wanted: &str| {
                assert_eq!(host::status(pid, field).as_deref(), Some(wanted), "{field} of {pid}")
            };
            is("Seccomp", "2");
            is("NoNewPrivs", "1");
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                // A plain user's bounding set means nothing without capabilities, and may not be shrunk.
                if who.is_root() || set != "CapBnd" {
                    is(set, "0000000000000000");
                }
            }
        }
    }
}

#[test]
fn the_receipt_says_what_protected_the_host() {
    everybody("print(1)", |who, record| {
        let isolation = &record["isolation"];
        let fact = |name: &str, value: serde_json::Value| {
            record.must(isolation[name] == value, &format!("{name} {value}")).exits(0);
        };
        fact("backend", "native".into());
        fact("userns", true.into());
        fact("net_mode", "none".into());
        fact("seccomp_profile", "default".into());
        fact("host_uid_unique", who.is_root().into());
        fact("grade", u8::from(who.is_root()).into());
        record.must(
            isolation["seccomp_profile_sha256"].as_str().is_some_and(|hash| hash.len() == 64),
            "a hash",
        );
        record.must(isolation["landlock_abi"].as_u64() > Some(0), "landlock");
        record.must(
            isolation["degraded"].as_array().unwrap().is_empty() == who.is_root(),
            "what is weaker, named",
        );
        record.must(isolation["host_uid"].as_u64() > Some(0), "an outside uid that is not root");
    });
}

#[test]
fn pid_1_cannot_be_read_traced_or_killed() {
    let code = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nfound = []\n\
        for name in os.listdir('/proc/self') + ['fd/0', 'ns/user', 'task/1/mem', 'map_files']:\n    \
        for look in (lambda p: open(p, 'rb').read(1), os.listdir, os.readlink):\n        \
        try: look('/proc/1/' + name); found.append(name)\n        except OSError: pass\n\
        for request in (16, 0x4206):\n    \
        if libc.ptrace(request, 1, 0, 0) == 0: found.append('ptrace')\n\
        for n in (9, 15, 19):\n    try: os.kill(1, n)\n    except OSError: pass\n\
        print(found)";
    says(code, "[]\n");
}

#[test]
fn only_three_descriptors_are_open() {
    // The fourth is the directory being listed.
    says("import os\nprint(sorted(os.listdir('/proc/self/fd')))", "['0', '1', '2', '3']\n");
    for who in Sandboxd::everybody() {
        who.run("sh", "for f in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$f ] && echo $f; done; exit 0")
            .json()
            .is("success");
    }
}

#[test]
fn other_processes_are_not_there() {
    says(
        "import os\nprint(sorted(int(n) for n in os.listdir('/proc') if n.isdigit() and int(n) not in (1, os.getpid())))",
        "[]\n",
    );
}

#[test]
fn devices_are_few_and_there_is_no_sys() {
    let wanted = "['fd', 'full', 'null', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero']\n";
    says("import os\nprint(sorted(os.listdir('/dev')))", wanted);
    says(
        "import os\nprint([p for p in ('/sys', '/boot', '/root', '/home', '/mnt', '/media', '/srv') if os.path.exists(p) and os.listdir(p)])",
        "[]\n",
    );
}

#[test]
fn nothing_of_the_host_can_be_written() {
    let code = "import os\nwritten = []\nfor d in ['/', '/usr', '/usr/bin', '/etc', '/bin', '/lib', '/dev', '/proc', '/proc/sys/kernel', '/var', '/opt']:\n    \
        try: open(d + '/intruder', 'w').close(); written.append(d)\n    except OSError: pass\n\
        for f in ['/etc/passwd', '/usr/bin/env', '/proc/sys/kernel/hostname', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/self/uid_map', '/proc/1/oom_score_adj']:\n    \
        try: open(f, 'r+').close(); written.append(f)\n    except OSError: pass\n\
        for f in ['/etc/passwd', '/usr/bin/env', '/usr', '/workspace/../etc']:\n    \
        try: os.rename(f, f + '.moved'); written.append(f)\n    except OSError: pass\n    \
        try: os.chmod(f, 0o777); written.append(f)\n    except OSError: pass\nprint(written)";
    says(code, "[]\n");
}

#[test]
fn a_program_is_as_nice_as_who_runs_it() {
    let wanted = (rustix::process::getpriority_process(None).unwrap() + 7).min(19);
    for who in Sandboxd::everybody() {
        let nice = who.behind(&["nice", "-n", "7"].map(String::from));
        nice.run("python", "import os; print(os.nice(0))").json().is("success").says(&format!("{wanted}\n"));
    }
}

#[test]
fn the_environment_is_clean() {
    let code = "import os\nprint(sorted(os.environ), os.environ['HOME'], os.getcwd(), os.getuid(), os.uname().nodename)";
    for who in Sandboxd::everybody() {
        let record =
            who.run("python", code).env("CANARY_VARIABLE", "canary").env("LD_PRELOAD_CANARY", "x").json();
        record.is("success").says(
            "['HOME', 'LC_CTYPE', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'SHELL', 'TMPDIR', 'USER'] /workspace /workspace 1000 sandbox\n",
        );
    }
}

#[test]
fn files_of_the_host_are_not_visible() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let canary = who.write(&folder.path().join("canary"), "secret");
        let home = who.home().display().to_string();
        let code = format!(
            "import os\nprint([p for p in ({canary:?}, {home:?}, '/etc/shadow', '/etc/ssh', '/var/log', '/var/lib', '/run/sandboxd') if os.path.exists(p)])"
        );
        who.run("python", &code).json().is("success").says("[]\n");
        // The same look without walls finds it, so the look is a good one.
        let bare = who.run("python", &code).flag("--unsafe-no-isolation").json();
        bare.must(bare.stdout().contains("canary"), "the canary without isolation");
    }
}

#[test]
fn there_is_no_network_but_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let code = format!(
        "import errno, socket\ndef call(family, address):\n    s = socket.socket(family)\n    s.settimeout(3)\n    \
        try: s.connect(address); return 'connected'\n    except OSError as e: return errno.errorcode.get(e.errno, str(e))\n\
        print(call(socket.AF_INET, ('127.0.0.1', {port})), call(socket.AF_INET, ('192.0.2.1', 80)), call(socket.AF_INET6, ('2001:db8::1', 80)))\n\
        try: socket.getaddrinfo('example.org', 80); print('resolved')\nexcept OSError: print('no name')\n\
        own = socket.create_server(('127.0.0.1', 0)); print(call(socket.AF_INET, own.getsockname()))\n\
        print(sorted(name for _, name in socket.if_nameindex()))"
    );
    everybody(&code, |_, record| {
        record.is("success").says("ECONNREFUSED ENETUNREACH ENETUNREACH\nno name\nconnected\n['lo']\n");
    });
    assert!(listener.accept().is_err(), "somebody got out");
    // With the host's network the same call arrives, so the call is a good one.
    let open = Sandboxd::plain().run("python", &code).options("--network host").json();
    open.must(open.stdout().starts_with("connected "), "a connection")
        .must(open["isolation"]["net_mode"] == "host", "its mode");
}

#[test]
fn sockets_of_the_host_without_a_name_in_the_file_system_are_not_reachable() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("sandboxd-tests-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let code = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ntry: s.connect('\\0{name}'); print('connected')\nexcept OSError as e: print(e.errno)"
    );
    says(&code, "111\n");
}

#[test]
fn dangerous_calls_are_refused() {
    let names = [
        "unshare(0x10000000)",
        "setns(0, 0)",
        "mount(0, 0, 0, 0, 0)",
        "umount2(0, 0)",
        "pivot_root(0, 0)",
        "chroot(\"/\")",
        "ptrace(0, 0, 0, 0)",
        "bpf(0, 0, 0)",
        "perf_event_open(0, 0, 0, 0, 0)",
        "userfaultfd(0)",
        "keyctl(0, 0)",
        "add_key(0, 0, 0, 0, 0)",
        "request_key(0, 0, 0, 0)",
        "io_uring_setup(1, 0)",
        "kexec_load(0, 0, 0, 0)",
        "init_module(0, 0, 0)",
        "delete_module(0, 0)",
        "reboot(0, 0, 0)",
        "swapon(0, 0)",
        "syslog(3, 0, 0)",
        "open_by_handle_at(0, 0, 0)",
        "process_vm_readv(1, 0, 0, 0, 0, 0)",
        "clock_settime(0, 0)",
        "sethostname(\"x\", 1)",
        "quotactl(0, 0, 0, 0)",
        "acct(0)",
        "fsopen(\"tmpfs\", 0)",
        "open_tree(0, 0, 0)",
        "move_mount(0, 0, 0, 0, 0)",
        "clone(0x10000000, 0, 0, 0, 0)",
    ];
    let calls: String = names.map(|call| {
        let (name, args) = call.trim_end_matches(')').split_once('(').unwrap();
        format!("    errno = 0; if (syscall(SYS_{name}, {args}) != -1 || errno != EPERM) printf(\"{name} %d\\n\", errno);\n")
    }).concat();
    let code = format!(
        "#define _GNU_SOURCE\n#include <errno.h>\n#include <stdio.h>\n#include <sys/socket.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
        int main(void) {{\n{calls}    for (int f = 0; f < 46; f++) {{\n        int s = socket(f, SOCK_RAW, 0);\n        \
        if (s >= 0 && f != AF_UNIX && f != AF_NETLINK) printf(\"raw socket of family %d\\n\", f);\n    }}\n}}\n"
    );
    for who in Sandboxd::everybody() {
        who.run("c", &code).json().is("success").says("");
    }
}
