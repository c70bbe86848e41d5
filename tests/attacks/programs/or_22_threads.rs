// Rust: threads, channels, locks, processes, sockets, files, panics that are caught, collections.
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{mpsc, Arc, Condvar, Mutex, RwLock};
use std::time::{Duration, Instant};
use std::{env, fs, panic, thread};

fn main() {
    let (send, receive) = mpsc::channel();
    let table = Arc::new(RwLock::new(HashMap::new()));
    let workers: Vec<_> = (0..8u64)
        .map(|n| {
            let (send, table) = (send.clone(), Arc::clone(&table));
            thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn(move || {
                    let sum: u64 = (0..100_000).filter(|x| x % (n + 1) == 0).sum();
                    table.write().unwrap().insert(n, sum);
                    send.send(sum).unwrap();
                })
                .unwrap()
        })
        .collect();
    drop(send);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!(receive.iter().count(), 8);
    assert_eq!(table.read().unwrap()[&0], 4_999_950_000);

    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = Arc::clone(&pair);
    thread::spawn(move || {
        *other.0.lock().unwrap() = true;
        other.1.notify_all();
    });
    let ready = pair.1.wait_while(pair.0.lock().unwrap(), |ready| !*ready).unwrap();
    assert!(*ready);
    panic::set_hook(Box::new(|_| {}));
    assert!(thread::spawn(|| panic!("caught")).join().is_err());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for stream in listener.incoming().take(20) {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            stream.write_all(line.to_uppercase().as_bytes()).unwrap();
        }
    });
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"hello\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "HELLO\n");
    }
    server.join().unwrap();
    let udp = UdpSocket::bind("[::1]:0").unwrap();
    udp.send_to(b"x", udp.local_addr().unwrap()).unwrap();
    assert_eq!(udp.recv(&mut [0; 8]).unwrap(), 1);
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    ours.write_all(b"pair").unwrap();
    drop(ours);
    let mut text = String::new();
    theirs.read_to_string(&mut text).unwrap();
    assert_eq!(text, "pair");

    let out = Command::new("sort").arg("-n").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().and_then(|mut child| {
        child.stdin.take().unwrap().write_all(b"3\n1\n2\n")?;
        child.wait_with_output()
    });
    assert_eq!(out.unwrap().stdout, b"1\n2\n3\n");
    assert_eq!(Command::new("sh").args(["-c", "exit 7"]).status().unwrap().code(), Some(7));

    fs::create_dir_all("/tmp/deep/er").unwrap();
    fs::write("/tmp/deep/er/file", "a b a").unwrap();
    fs::copy("/tmp/deep/er/file", "/tmp/deep/copy").unwrap();
    let mut words = BTreeMap::new();
    for word in fs::read_to_string("/tmp/deep/copy").unwrap().split(' ') {
        *words.entry(word.to_owned()).or_insert(0) += 1;
    }
    assert_eq!(words["a"], 2);
    fs::remove_dir_all("/tmp/deep").unwrap();
    let begun = Instant::now();
    thread::sleep(Duration::from_millis(5));
    assert!(begun.elapsed() >= Duration::from_millis(5) && env::var("HOME").is_ok());
    assert!(thread::available_parallelism().unwrap().get() >= 1);
    println!("done");
}
