//! Webhooks by https: who has a certificate that this host trusts is told, nobody else is.

use crate::client::Served;
use crate::support::Sandboxd;
use crate::{PATIENCE, received};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// An authority, and certificates: `good` by it for 127.0.0.1, `other` by it for another name, `own` by nobody but itself.
fn certificates(folder: &Path) {
    let script = r#"
        set -e
        openssl ecparam -name prime256v1 -genkey -noout -out ca.key
        openssl req -x509 -key ca.key -subj /CN=authority -days 2 -out ca.pem
        signed() {
            openssl ecparam -name prime256v1 -genkey -noout -out $1.key
            openssl req -new -key $1.key -subj /CN=$1 -out $1.csr
            printf 'subjectAltName=%s\n' "$2" > $1.names
            openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $1.names -out $1.pem
        }
        signed good IP:127.0.0.1
        signed other DNS:other.example.org
        openssl ecparam -name prime256v1 -genkey -noout -out own.key
        openssl req -x509 -key own.key -subj /CN=own -addext subjectAltName=IP:127.0.0.1 -days 2 -out own.pem
        chmod 644 ca.pem
    "#;
    let made = Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Somebody who is told, if they can prove who they are.
struct Receiver {
    address: SocketAddr,
    /// What came: an event, or what went wrong with the connection.
    got: mpsc::Receiver<Result<Value, String>>,
    shows: Arc<Mutex<Arc<ServerConfig>>>,
}

impl Receiver {
    fn start(folder: &Path, name: &str) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, (sender, got)) = (listener.local_addr().unwrap(), mpsc::channel());
        let shows = Arc::new(Mutex::new(config(folder, name)));
        let shown = shows.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(shown.lock().unwrap().clone()).unwrap();
                let body = received(StreamOwned::new(connection, stream.unwrap()));
                let heard = body.map(|body| serde_json::from_slice(&body).unwrap());
                if sender.send(heard.map_err(|error| error.to_string())).is_err() {
                    return;
                }
            }
        });
        Receiver { address, got, shows }
    }

    fn url(&self) -> String {
        format!("https://{}/hook", self.address)
    }
}

fn config(folder: &Path, name: &str) -> Arc<ServerConfig> {
    let file = |kind: &str| folder.join(format!("{name}.{kind}"));
    let chain = CertificateDer::pem_file_iter(file("pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(file("key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap())
}

/// What a webhook is like when it has failed so often.
fn failed(served: &Served, hook: &Value, times: u64) -> Value {
    let path = format!("/api/v1/webhooks/{}", hook["id"].as_str().unwrap());
    let began = Instant::now();
    loop {
        let now = served.get(&path).is(200);
        if now["failures"].as_u64().unwrap() >= times {
            return now;
        }
        assert!(began.elapsed() < PATIENCE, "{now}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn only_who_has_a_certificate_that_is_trusted_is_told() {
    let who = Sandboxd::caller();
    let folder = who.folder();
    certificates(folder.path());
    let set = [
        "webhooks.allow_private=true",
        "webhooks.attempts=100",
        "webhooks.retry_base=50ms",
        "webhooks.retry_max=100ms",
    ];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let trusting = who.clone().with("SSL_CERT_FILE", folder.path().join("ca.pem").display());
    let served = Served::start(&trusting, &set);
    let [good, other, own] = ["good", "other", "own"].map(|name| Receiver::start(folder.path(), name));
    let hooks = [&good, &other, &own].map(|receiver| {
        let wanted = json!({"url": receiver.url(), "kinds": ["session.created"]});
        served.post("/api/v1/webhooks", &wanted).is(201)
    });
    served.post("/api/v1/sessions", &json!({"id": "demo"})).is(201);

    let told = good.got.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!((&told["kind"], &told["subject"]), (&json!("session.created"), &json!("demo")), "{told}");
    for (receiver, hook) in [(&other, &hooks[1]), (&own, &hooks[2])] {
        let tried = failed(&served, hook, 3);
        assert_eq!(tried["status"], "retrying", "{tried}");
        let why = tried["last_error"].as_str().unwrap();
        assert!(why.contains("certificate"), "{why}");
        for _ in 0..3 {
            receiver.got.recv_timeout(PATIENCE).unwrap().expect_err("who is not trusted is told nothing");
        }
    }
    // It was tried again all the while, and arrives when it can.
    *own.shows.lock().unwrap() = config(folder.path(), "good");
    let began = Instant::now();
    let told = loop {
        if let Ok(told) = own.got.recv_timeout(PATIENCE).unwrap() {
            break told;
        }
        assert!(began.elapsed() < PATIENCE);
    };
    assert_eq!(told["subject"], "demo");
    served.stop();

    // The same certificate on a host that does not know of its authority.
    let served = Served::start(&who, &set);
    let hook =
        served.post("/api/v1/webhooks", &json!({"url": good.url(), "kinds": ["session.created"]})).is(201);
    served.post("/api/v1/sessions", &json!({"id": "demo"})).is(201);
    assert!(failed(&served, &hook, 2)["last_error"].as_str().unwrap().contains("certificate"));
    good.got.recv_timeout(PATIENCE).unwrap().expect_err("who is not trusted is told nothing");
    served.stop();
}
