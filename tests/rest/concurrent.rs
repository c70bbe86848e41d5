//! Programs of one session that run at once: really at once, each by itself, and none at the cost of another.

use super::*;
use std::thread::{Scope, ScopedJoinHandle};

const PATIENCE: Duration = Duration::from_secs(20);

/// A session of this many seats on every kind of server, and what a test does with it.
fn seated(count: u32, more: Value, work: impl Fn(&Session<'_>)) {
    for who in Sandboxd::everybody() {
        let served = Served::start(&who, &["--set", "pool.enabled=false"]);
        let mut asked = json!({"id": "s", "max_concurrent": count, "timeout": 20});
        asked.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let made = served.post("/api/v1/sessions", &asked).is(201);
        assert_eq!(made["max_concurrent"], count, "{made}");
        work(&Session { served: &served });
        served.stop();
    }
}

struct Session<'a> {
    served: &'a Served,
}

impl Session<'_> {
    fn at(&self, path: &str) -> String {
        format!("/api/v1/sessions/s{path}")
    }

    fn run(&self, program: &Value) -> Value {
        self.served.post(&self.at("/execute-sync"), program).is(200)
    }

    /// Begins these.
    fn begin<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        programs: impl IntoIterator<Item = Value>,
    ) -> Vec<ScopedJoinHandle<'s, Value>> {
        programs.into_iter().map(|program| scope.spawn(move || self.run(&program))).collect()
    }

    /// Runs these, begun at once.
    fn all(&self, programs: &[Value]) -> Vec<Value> {
        std::thread::scope(|scope| {
            let all = self.begin(scope, programs.iter().cloned());
            all.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    fn view(&self) -> Value {
        self.served.get(&self.at("")).is(200)
    }

    fn until(&self, what: &str, is: impl Fn() -> bool) {
        let patience = Instant::now() + PATIENCE;
        while !is() {
            assert!(Instant::now() < patience, "never: {what}: {}", self.view());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn has(&self, file: &str) -> bool {
        self.served.get(&self.at(&format!("/files/{file}"))).status == 200
    }

    fn say(&self, file: &str) {
        let bytes = [("content-type", "application/octet-stream")];
        let answer = self.served.send("PUT", &self.at(&format!("/files/{file}")), &bytes, b"x");
        assert!(matches!(answer.status, 200 | 201), "{} {}", answer.status, answer.text());
    }

    /// Processes of the server whose names begin like this, as the host sees them.
    fn processes(&self, name: &str) -> Vec<u32> {
        let all = host::descendants(self.served.running.as_ref().unwrap().pid());
        let named = |pid: &u32| host::status(*pid, "Name").is_some_and(|found| found.starts_with(name));
        all.into_iter().filter(named).collect()
    }

    /// Whether every seat still works: as many programs as there are seats meet each other.
    fn is_whole(&self, count: usize) {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let meeting = format!("meeting-{}", now.as_nanos());
        let programs: Vec<Value> = (0..count).map(|n| meets(&meeting, n, count)).collect();
        for (n, done) in self.all(&programs).iter().enumerate() {
            assert_eq!(
                (&done["outcome"], &done["stdout"]),
                (&"success".into(), &format!("{n}\n").into()),
                "{done}"
            );
        }
    }
}

/// Number `n` of so many, that ends when all of them have been there at once.
fn meets(meeting: &str, n: usize, count: usize) -> Value {
    python(&format!(
        "import os, time\n\
         os.makedirs('{meeting}', exist_ok=True)\n\
         open('{meeting}/{n}', 'w').close()\n\
         until = time.time() + 15\n\
         while len(os.listdir('{meeting}')) < {count}:\n\
         \x20   assert time.time() < until, 'alone'\n\
         \x20   time.sleep(.01)\n\
         print({n})"
    ))
}

#[test]
fn so_many_programs_run_at_once_and_one_more_waits() {
    seated(3, json!({}), |session| {
        let waits = |n: u32| {
            python(&format!(
                "import os, sys, time\n\
                 print(os.path.basename(__file__), flush=True)\n\
                 print('from {n}', file=sys.stderr)\n\
                 open('begun-{n}', 'w').close()\n\
                 while not os.path.exists('go'): time.sleep(.01)\n\
                 sys.exit({n})"
            ))
        };
        std::thread::scope(|scope| {
            let three = session.begin(scope, (1..4).map(waits));
            session.until("three run", || (1..4).all(|n| session.has(&format!("begun-{n}"))));
            let fourth = scope.spawn(|| session.run(&waits(4)));
            session.until("one waits", || session.view()["queued"] == 1);
            let view = session.view();
            assert_eq!((&view["running"], &view["state"]), (&3.into(), &"running".into()), "{view}");
            assert!(!session.has("begun-4"), "it waits for a seat");
            session.say("go");
            let mut names = Vec::new();
            for (n, one) in three.into_iter().map(|one| one.join().unwrap()).enumerate() {
                assert_eq!(
                    (&one["exit_code"], &one["stderr"]),
                    (&json!(n + 1), &format!("from {}\n", n + 1).into())
                );
                names.push(one["stdout"].clone());
                for artifact in one["artifacts"].as_array().unwrap() {
                    assert!(!artifact["path"].as_str().unwrap().starts_with("main"), "{artifact}");
                }
            }
            names.push(fourth.join().unwrap()["stdout"].clone());
            names.sort_by_key(Value::to_string);
            names.dedup();
            assert_eq!(names.len(), 4, "each has a main file of its own: {names:?}");
        });
        let left = session.served.get(&session.at("/files")).is(200).to_string();
        assert!(!left.contains("main"), "main files go with their programs: {left}");
        session.is_whole(3);
    });
}

#[test]
fn each_has_its_own_time_its_own_processes_and_its_own_end() {
    seated(2, json!({}), |session| {
        // One is over its time, and leaves behind what would write later; the other goes on, with a child of its own.
        let hasty = json!({"language": "python", "timeout": 0.7, "code": "\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1.5)
        open('daemon', 'w').close()
    os._exit(0)
os.wait()
print('begun', flush=True)
time.sleep(60)"});
        let patient = python(
            "import subprocess, time\n\
             child = subprocess.Popen(['sleep', '60'])\n\
             time.sleep(3)\n\
             print(child.poll())",
        );
        let done = session.all(&[hasty, patient]);
        assert_eq!(
            (&done[0]["outcome"], &done[0]["stdout"]),
            (&"timed_out".into(), &"begun\n".into()),
            "{}",
            done[0]
        );
        assert_eq!(
            (&done[1]["outcome"], &done[1]["stdout"]),
            (&"success".into(), &"None\n".into()),
            "{}",
            done[1]
        );
        assert!(!session.has("daemon"), "who was left behind has ended with its program");
        // One is cancelled, the other is not.
        let submit = |n: u32| {
            let code = format!(
                "import os, time\nopen('up-{n}', 'w').close()\nwhile not os.path.exists('go'): time.sleep(.01)\nprint('whole')"
            );
            session.served.post(&session.at("/execute"), &python(&code)).is(201)["execution_id"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let (first, second) = (submit(1), submit(2));
        session.until("both run", || session.has("up-1") && session.has("up-2"));
        session.served.post(&format!("/api/v1/executions/{first}/cancel"), &Value::Null);
        let of = |id: &str| session.served.get(&format!("/api/v1/executions/{id}")).is(200);
        session.until("cancelled", || of(&first)["outcome"] == "cancelled");
        assert_eq!(of(&second)["status"], "running");
        session.say("go");
        session.until("the other ends", || of(&second)["status"] == "completed");
        assert_eq!(of(&second)["stdout"], "whole\n");
        // CPU time is each one's own.
        let busy = json!({"language": "python", "code": "while True: pass", "limits": {"cpu_time": "500ms"}});
        let idle = python("import time\ntime.sleep(2)\nprint('slept')");
        let done = session.all(&[busy, idle]);
        assert_eq!(done[0]["outcome"], "cpu_limit", "{}", done[0]);
        assert_eq!(
            (&done[1]["outcome"], &done[1]["stdout"]),
            (&"success".into(), &"slept\n".into()),
            "{}",
            done[1]
        );
        let spent = |n: usize| done[n]["metrics"]["cpu_time_ms"].as_f64().unwrap();
        assert!(spent(0) >= 400.0 && spent(1) < 350.0, "{} {}", spent(0), spent(1));
        session.is_whole(2);
    });
}

#[test]
fn what_is_built_and_what_is_returned_is_each_ones_own() {
    seated(2, json!({"languages": ["python", "c"]}), |session| {
        let c = |n: u32| json!({"language": "c", "code": format!("#include <stdio.h>\nint main() {{ printf(\"{n}\\n\"); return {n}; }}")});
        let call = |n: u32| {
            json!({"language": "python", "mode": "handler", "event": {"n": n},
                "code": "import time\ndef handler(event):\n    time.sleep(.5)\n    return event['n'] * 2"})
        };
        for _ in 0..3 {
            let done = session.all(&[c(1), c(2)]);
            for (n, done) in (1..).zip(&done) {
                assert_eq!(
                    (&done["exit_code"], &done["stdout"]),
                    (&json!(n), &format!("{n}\n").into()),
                    "{done}"
                );
            }
            let done = session.all(&[call(1), call(2)]);
            assert_eq!(
                (&done[0]["return_value"], &done[1]["return_value"]),
                (&2.into(), &4.into()),
                "{done:?}"
            );
        }
    });
}

#[test]
fn who_wants_everything_takes_it_from_nobody_else() {
    // Processes: a bomb, beside somebody who needs none.
    seated(2, json!({"limits": {"pids": 40}}), |session| {
        let bomb = json!({"language": "python", "timeout": 2, "code": "\
import os, time
while not os.path.exists('calm'): time.sleep(.01)
while True:
    try:
        os.fork()
    except OSError:
        pass"});
        let calm = python(
            "import time\nopen('calm', 'w').close()\nuntil = time.time() + 4\nn = 0\nwhile time.time() < until:\n    n += 1\n    time.sleep(.01)\nprint('calm', n > 20)",
        );
        let done = session.all(&[bomb, calm]);
        assert_ne!(done[0]["outcome"], "success", "{}", done[0]);
        assert_eq!(
            (&done[1]["outcome"], &done[1]["stdout"]),
            (&"success".into(), &"calm True\n".into()),
            "{}",
            done[1]
        );
        session.is_whole(2);
    });
    // Memory: what all use together is bounded, and the largest of them ends.
    seated(2, json!({"memory": "256M", "disk": "32M"}), |session| {
        let modest = python(
            "import os, time\nkept = b'x' * (60 << 20)\nopen('modest', 'w').close()\n\
             while not os.path.exists('over'): time.sleep(.01)\ntime.sleep(.3)\nprint(len(kept))",
        );
        let greedy = python(
            "import os, time\nwhile not os.path.exists('modest'): time.sleep(.01)\nkept = []\n\
             while True:\n    kept.append(b'x' * (4 << 20))\n    time.sleep(.01)",
        );
        std::thread::scope(|scope| {
            let modest = scope.spawn(|| session.run(&modest));
            let greedy = session.run(&greedy);
            session.say("over");
            assert_eq!(greedy["outcome"], "out_of_memory", "{greedy}");
            let modest = modest.join().unwrap();
            assert_eq!(
                (&modest["outcome"], &modest["stdout"]),
                (&"success".into(), &format!("{}\n", 60 << 20).into()),
                "{modest}"
            );
            let peak = |done: &Value| done["metrics"]["memory_peak_bytes"].as_u64().unwrap() >> 20;
            assert!((60..110).contains(&peak(&modest)) && peak(&greedy) > 110, "{modest} {greedy}");
        });
        // What was used at a seat before is not the next one's.
        for _ in 0..3 {
            let small = session.run(&python("import time\ntime.sleep(.05)\nprint(1)"));
            let peak = small["metrics"]["memory_peak_bytes"].as_u64().unwrap() >> 20;
            assert!((1..60).contains(&peak), "{small}");
        }
        session.is_whole(2);
    });
}

#[test]
fn nobody_reaches_another_program_or_who_watches_it() {
    seated(3, json!({}), |session| {
        let witness = python(
            "import os, signal, time\nfor n in range(1, 32):\n    if n not in (9, 19): signal.signal(n, signal.SIG_DFL)\n\
             open('witness', 'w').close()\nwhile not os.path.exists('over'): time.sleep(.01)\nprint('unharmed')",
        );
        let attack = python(
            r#"
import ctypes, os, signal, time
while not os.path.exists('witness'): time.sleep(.01)
libc = ctypes.CDLL(None, use_errno=True)
me, got = os.getpid(), []
print('seen', sorted(int(name) for name in os.listdir('/proc') if name.isdigit() and int(name) != me))
for pid in [*range(-50, 0), *range(1, 400)]:
    if pid in (me, -me) or pid == -1: continue
    for number in (0, 9, 19, 31, 34):
        try:
            os.kill(pid, number)
            got.append(('kill', pid, number))
        except OSError: pass
    if pid > 0:
        for name, call in (('attach', lambda: libc.ptrace(16, pid, 0, 0)), ('seize', lambda: libc.ptrace(0x4206, pid, 0, 0))):
            if call() == 0: got.append((name, pid))
        try:
            descriptor = os.pidfd_open(pid)
            signal.pidfd_send_signal(descriptor, 9)
            got.append(('pidfd', pid))
        except OSError: pass
        for name in ('mem', 'environ', 'maps', 'cwd', 'root', 'fd/0', 'fd/1', 'fd/3', 'ns/pid'):
            try:
                with open(f'/proc/{pid}/{name}', 'rb') as file: file.read(1)
                got.append((name, pid))
            except (OSError, ValueError): pass
for key in range(64):
    if libc.shmget(key + 1, 0, 0) >= 0: got.append(('segment', key))
print('got', got, flush=True)
# Everybody it can: its own processes, and nobody else.
if os.fork() == 0:
    os.kill(-1, 9)
    os._exit(0)
time.sleep(10)
"#,
        );
        let leaves = python(
            "import ctypes\nlibc = ctypes.CDLL(None)\nprint(libc.shmget(7, 4096, 0o1666) >= 0)\nimport time\ntime.sleep(3)",
        );
        std::thread::scope(|scope| {
            let witness = scope.spawn(|| session.run(&witness));
            let leaves = scope.spawn(|| session.run(&leaves));
            let attack = session.run(&attack);
            session.say("over");
            let said = attack["stdout"].as_str().unwrap().to_owned();
            assert_eq!(said, "seen []\ngot []\n", "{attack}");
            assert_eq!(attack["outcome"], "signalled", "{attack}");
            assert_eq!(leaves.join().unwrap()["stdout"], "True\n");
            let witness = witness.join().unwrap();
            assert_eq!(
                (&witness["outcome"], &witness["stdout"]),
                (&"success".into(), &"unharmed\n".into()),
                "{witness}"
            );
        });
        session.is_whole(3);
    });
}

#[test]
fn all_stand_still_and_all_end_together() {
    seated(2, json!({}), |session| {
        let ticks = |n: u32| {
            python(&format!(
                "import os, time\nwhile not os.path.exists('go'):\n    open('ticks-{n}', 'a').write('x')\n    time.sleep(.02)\nprint('went on')"
            ))
        };
        let size = |n: u32| {
            let found = session.served.get(&session.at(&format!("/files/ticks-{n}")));
            if found.status == 200 { found.body.len() } else { 0 }
        };
        std::thread::scope(|scope| {
            let both = session.begin(scope, (1..3).map(ticks));
            session.until("both tick", || size(1) > 3 && size(2) > 3);
            session.served.post(&session.at("/pause"), &Value::Null).is(200);
            std::thread::sleep(Duration::from_millis(300));
            let before = (size(1), size(2));
            std::thread::sleep(Duration::from_millis(500));
            assert_eq!((size(1), size(2)), before, "they stand still");
            session.served.post(&session.at("/resume"), &Value::Null).is(200);
            session.until("both go on", || size(1) > before.0 && size(2) > before.1);
            session.say("go");
            for one in both {
                assert_eq!(one.join().unwrap()["stdout"], "went on\n");
            }
        });
        // Ending it ends everything in it.
        for n in 1..3 {
            let code = format!("open('last-{n}', 'w').close()\nimport time\ntime.sleep(60)");
            session.served.post(&session.at("/execute"), &python(&code)).is(201);
        }
        session.until("both run", || session.has("last-1") && session.has("last-2"));
        assert_eq!((session.processes("python").len(), session.processes("sandbox-seat").len()), (2, 2));
        session.served.post(&session.at("/terminate"), &Value::Null).is(200);
        let patience = Instant::now() + PATIENCE;
        let living = || [session.processes("python"), session.processes("sandbox-seat")].concat();
        while !living().is_empty() {
            assert!(Instant::now() < patience, "left: {:?}", living());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn who_cannot_begin_harms_nobody() {
    for count in [1, 2] {
        seated(count, json!({"disk": "16M", "memory": "256M"}), |session| {
            let waits =
                python("import os, time\nwhile not os.path.exists('go'): time.sleep(.01)\nprint('unharmed')");
            std::thread::scope(|scope| {
                let beside = (count > 1).then(|| scope.spawn(|| session.run(&waits)));
                // What nobody reads is not in the way of what is said next.
                let deaf = json!({"language": "python", "code": "print(1)", "stdin": "x".repeat(4_000_000)});
                assert_eq!(session.run(&deaf)["stdout"], "1\n");
                assert_eq!(session.run(&python("print(2)"))["stdout"], "2\n");
                let fill = "f = open('fill', 'wb')\ntry:\n    while True: f.write(bytes(4096)); f.flush()\nexcept OSError as e: print(e.errno)";
                assert_eq!(session.run(&python(fill))["stdout"], "28\n");
                let large = python(&format!("print(3) # {}", "x".repeat(100_000)));
                let refused = session.run(&large);
                assert_eq!(refused["outcome"], "infra_error", "{refused}");
                assert!(refused["error"]["message"].as_str().unwrap().contains("No space left"), "{refused}");
                session.served.delete(&session.at("/files/fill"));
                session.say("go");
                assert_eq!(session.run(&large)["stdout"], "3\n");
                if let Some(beside) = beside {
                    assert_eq!(beside.join().unwrap()["stdout"], "unharmed\n");
                }
            });
            let left = session.served.get(&session.at("/files")).is(200).to_string();
            assert!(!left.contains("main"), "{left}");
        });
    }
}

#[test]
fn when_a_seat_is_lost_nobody_reports_a_success() {
    seated(2, json!({}), |session| {
        let waits = |n: u32| {
            python(&format!(
                "print('begun', flush=True)\nopen('up-{n}', 'w').close()\nimport time\ntime.sleep(30)"
            ))
        };
        std::thread::scope(|scope| {
            let both = session.begin(scope, (1..3).map(waits));
            session.until("both run", || session.has("up-1") && session.has("up-2"));
            let seats = session.processes("sandbox-seat");
            let lost = rustix::process::Pid::from_raw(seats[0] as i32).unwrap();
            rustix::process::kill_process(lost, rustix::process::Signal::KILL).unwrap();
            for one in both {
                let one = one.join().unwrap();
                assert_eq!(
                    (&one["outcome"], &one["stdout"]),
                    (&"infra_error".into(), &"begun\n".into()),
                    "{one}"
                );
            }
        });
        session.until("it has failed", || session.view()["state"] == "failed");
        // It gets another sandbox, as wide as the first.
        assert_eq!(session.run(&python("print('again')"))["stdout"], "again\n");
        session.is_whole(2);
    });
}

#[test]
fn how_many_is_bounded_and_a_template_can_say_it() {
    let served = Served::start(&Sandboxd::caller(), &["--set", "pool.enabled=false"]);
    let usual = served.post("/api/v1/sessions", &json!({})).is(201);
    assert_eq!(usual["max_concurrent"], 1, "{usual}");
    for word in [json!("two"), json!(1.5), json!([2])] {
        let said = served.post("/api/v1/sessions", &json!({"max_concurrent": word})).is(422);
        assert_eq!(said["field"], "max_concurrent", "{said}");
    }
    for count in [0, -1, 9, 1_000_000_000_000_i64] {
        for (path, asked) in [
            ("/api/v1/sessions", json!({"max_concurrent": count})),
            ("/api/v1/templates", json!({"id": "t", "name": "t", "max_concurrent": count})),
        ] {
            let said = served.post(path, &asked).is(422);
            assert_eq!(said["field"], "max_concurrent", "{count} {path}: {said}");
        }
    }
    let said = served.post("/api/v1/sessions", &json!({"max_concurrent": 9})).is(422);
    assert!(said["hint"].as_str().unwrap().contains("1 to 8"), "{said}");
    let one = served.post("/api/v1/sessions", &json!({"mode": "ephemeral", "max_concurrent": 2})).is(422);
    assert_eq!(one["field"], "max_concurrent", "{one}");
    let made = served
        .post(
            "/api/v1/templates",
            &json!({"id": "wide", "name": "Wide", "languages": ["python"], "max_concurrent": 2}),
        )
        .is(201);
    assert_eq!(made["max_concurrent"], 2, "{made}");
    served.post("/api/v1/sessions", &json!({"id": "s", "template_id": "wide"})).is(201);
    let session = Session { served: &served };
    assert_eq!(session.view()["max_concurrent"], 2);
    session.is_whole(2);
    let once = json!({"id": "e", "template_id": "wide", "mode": "ephemeral"});
    assert_eq!(served.post("/api/v1/sessions", &once).is(201)["max_concurrent"], 1);
    served.stop();
    // The operator says how many there may be at most.
    let served = Served::start(
        &Sandboxd::caller(),
        &["--set", "sessions.max_concurrent=2", "--set", "pool.enabled=false"],
    );
    served.post("/api/v1/sessions", &json!({"max_concurrent": 2})).is(201);
    let said = served.post("/api/v1/sessions", &json!({"max_concurrent": 3})).is(422);
    assert_eq!(
        (&said["field"], said["hint"].as_str().unwrap().contains("1 to 2")),
        (&"max_concurrent".into(), true)
    );
    served.stop();
}
