//! A server that goes away and comes back: what fails meanwhile says that it can be tried again, and then works.

use crate::world::{Kind, World, outcome, submission};
use engine::storage::{DatabaseUrl, Store, StoreError, StoreSettings};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Stands between the store and its server, and can be taken away.
struct Wire {
    address: SocketAddr,
    server: SocketAddr,
    forwarding: Option<JoinHandle<()>>,
}

impl Wire {
    async fn to(server: SocketAddr) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Wire { address, server, forwarding: Some(tokio::spawn(forward(listener, server))) }
    }

    /// Cuts every connection; new ones are refused.
    async fn cut(&mut self) {
        if let Some(forwarding) = self.forwarding.take() {
            forwarding.abort();
            assert!(forwarding.await.unwrap_err().is_cancelled());
        }
    }

    async fn mend(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.forwarding = Some(tokio::spawn(forward(listener, self.server)));
    }
}

async fn forward(listener: TcpListener, server: SocketAddr) {
    // Dropped with this future, and then every connection with it.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        connections.spawn(async move {
            if let Ok(mut far) = TcpStream::connect(server).await {
                drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
            }
        });
    }
}

async fn goes_away_and_comes_back(kind: Kind) {
    let Some(world) = World::new(kind).await else { return };
    let (front, rest) = world.url.rsplit_once('@').unwrap();
    let (server, name) = rest.split_once('/').unwrap();
    let mut wire = Wire::to(server.parse().unwrap()).await;
    let url: DatabaseUrl = format!("{front}@{}/{name}", wire.address).parse().unwrap();
    let store = Store::open(&url, world.objects(), StoreSettings { readers: 2, writers: 2, events: true })
        .await
        .unwrap();
    let before = submission("alice");
    store.record(&before, &outcome()).await.unwrap();

    wire.cut().await;
    let began = Instant::now();
    for _ in 0..4 {
        let told = store.record(&submission("alice"), &outcome()).await.unwrap_err();
        assert!(matches!(told, StoreError::Unavailable { .. }), "{told:?}");
    }
    let told = store.execution("alice", &before.id).await.unwrap_err();
    assert!(matches!(told, StoreError::Unavailable { .. }), "{told:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "nobody hangs: {:?}", began.elapsed());

    wire.mend().await;
    for _ in 0..4 {
        store.record(&submission("alice"), &outcome()).await.unwrap();
    }
    assert_eq!(store.execution("alice", &before.id).await.unwrap().submission, before);
    assert_eq!(store.executions("alice", None, None, 100).await.unwrap().items.len(), 5);

    // Connections that died while nobody used them are noticed before anything is lost on them.
    wire.cut().await;
    wire.mend().await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    for _ in 0..4 {
        store.record(&submission("alice"), &outcome()).await.unwrap();
    }
    store.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb() {
    goes_away_and_comes_back(Kind::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    goes_away_and_comes_back(Kind::Postgres).await;
}
