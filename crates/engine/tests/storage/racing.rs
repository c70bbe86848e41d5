//! Many at once: nothing is lost, nothing happens twice, and nobody fails for somebody else.

use crate::world::{World, on_every_database, outcome, session, submission};
use engine::storage::{Claim, Claimed, SessionStatus, Store, StoreError, Submission};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::task::JoinSet;

on_every_database![
    many_writers_all_find_their_rows,
    one_of_many_wins_a_key,
    a_key_comes_with_what_it_made_or_not_at_all,
    one_of_many_changes_a_state,
    a_wrong_row_spoils_no_other,
    events_are_seen_in_the_order_of_their_numbers,
];

async fn many_writers_all_find_their_rows(world: World) {
    let store = Arc::new(world.open().await);
    let mut writers = JoinSet::new();
    for writer in 0..50 {
        let store = store.clone();
        writers.spawn(async move {
            let owner = format!("owner{}", writer % 5);
            for _ in 0..20 {
                let one = submission(&owner);
                store.record(&one, &outcome()).await.unwrap();
                // What is told to be stored is there, for readers on other connections too.
                assert_eq!(store.execution(&owner, &one.id).await.unwrap().submission, one);
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    for owner in 0..5 {
        let page = store.executions(&format!("owner{owner}"), None, None, 1000).await.unwrap();
        assert_eq!(page.items.len(), 200);
    }
}

async fn one_of_many_wins_a_key(world: World) {
    // Two servers on one database, as it were.
    let stores = [Arc::new(world.open().await), Arc::new(world.open().await)];
    for round in 0..5 {
        let key = format!("key {round} 😀 ");
        let mut callers = JoinSet::new();
        for caller in 0..40 {
            let (store, key) = (stores[caller % 2].clone(), key.clone());
            callers.spawn(async move {
                let request: &[u8] = if caller == 39 { b"another" } else { b"same" };
                let claim = Claim::new("alice", &key, request, &format!("made{caller}"), 1).unwrap();
                (caller, store.claim(&claim).await.unwrap())
            });
        }
        let told = callers.join_all().await;
        let winners: Vec<_> = told.iter().filter(|(_, claimed)| *claimed == Claimed::Won).collect();
        assert_eq!(winners.len(), 1, "{told:?}");
        let winner = winners[0].0;
        for (caller, claimed) in &told {
            let same = (*caller == 39) == (winner == 39);
            match claimed {
                Claimed::Won => {}
                Claimed::Before { made, .. } => assert!(same && *made == format!("made{winner}")),
                Claimed::Different => assert!(!same),
            }
        }
    }
    let other = Claim::new("bob", "key 0 😀 ", b"same", "x", 1).unwrap();
    assert_eq!(stores[0].claim(&other).await.unwrap(), Claimed::Won, "keys belong to their owners");
    let shorter = Claim::new("alice", "key 0 😀", b"same", "x", 1).unwrap();
    assert_eq!(stores[0].claim(&shorter).await.unwrap(), Claimed::Won, "a space makes another key");
}

async fn a_key_comes_with_what_it_made_or_not_at_all(world: World) {
    let store = Arc::new(world.open().await);
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        callers.spawn(async move {
            let one = submission("alice");
            let claim = Claim::new("alice", "key", b"request", &one.id, 1).unwrap();
            let claimed = store.submit(&one, Some(&claim)).await.unwrap();
            (one, claimed)
        });
    }
    let told: Vec<(Submission, Claimed)> = callers.join_all().await;
    let made = store.unfinished(None, 100).await.unwrap().items;
    assert_eq!(made.len(), 1, "nothing is run twice");
    for (one, claimed) in told {
        match claimed {
            Claimed::Won => assert_eq!(one, made[0].submission),
            other => assert_eq!(other, Claimed::Before { made: made[0].submission.id.clone(), at: 1 }),
        }
    }
    // What cannot be made does not use up the key.
    store.create_session(&session("alice", "taken"), None).await.unwrap();
    let claim = Claim::new("alice", "second", b"request", "taken", 1).unwrap();
    let refused = store.create_session(&session("alice", "taken"), Some(&claim)).await;
    assert_eq!(refused, Err(StoreError::Conflict { what: "session", why: "exists already" }));
    assert_eq!(store.claim(&claim).await.unwrap(), Claimed::Won);
}

async fn one_of_many_changes_a_state(world: World) {
    let store = Arc::new(world.open().await);
    let made = session("alice", "s1");
    store.create_session(&made, None).await.unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..30 {
        let (store, made) = (store.clone(), made.clone());
        let to = if caller % 2 == 0 { SessionStatus::Ready } else { SessionStatus::Failed };
        callers.spawn(async move { store.move_session(&made, to, 20, None).await });
    }
    let told = callers.join_all().await;
    assert_eq!(told.iter().filter(|one| one.is_ok()).count(), 1, "{told:?}");
    assert!(told.iter().all(|one| matches!(one, Ok(()) | Err(StoreError::Conflict { .. }))), "{told:?}");
    assert_eq!(store.session_history("alice", "s1", None, 100).await.unwrap().items.len(), 2);
}

async fn a_wrong_row_spoils_no_other(world: World) {
    let store = Arc::new(world.open().await);
    let twice = submission("alice");
    store.record(&twice, &outcome()).await.unwrap();
    let mut writers = JoinSet::new();
    for number in 0..200 {
        let one = if number % 20 == 0 { twice.clone() } else { submission("alice") };
        let (store, expected) = (store.clone(), number % 20 != 0);
        writers.spawn(async move {
            let told = store.record(&one, &outcome()).await;
            assert_eq!(told.is_ok(), expected, "{told:?}");
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    assert_eq!(store.executions("alice", None, None, 1000).await.unwrap().items.len(), 191);
}

async fn events_are_seen_in_the_order_of_their_numbers(world: World) {
    use crate::world::json;
    use engine::storage::NewEvent;
    async fn add(store: Arc<Store>, writer: usize) {
        for number in 0..20 {
            let owner = if writer == 0 { "alice" } else { "bob" };
            let (kind, subject) = ("session.ready".into(), "s1".into());
            let body = json(&(writer, number));
            store.add_event(&NewEvent { owner: owner.into(), kind, subject, at: 1, body }).await.unwrap();
        }
    }
    let stores = [Arc::new(world.open().await), Arc::new(world.open().await)];
    assert_eq!(stores[0].latest_event().await.unwrap(), 0);
    let mut writers = JoinSet::new();
    for writer in 0..10 {
        writers.spawn(add(stores[writer % 2].clone(), writer));
    }
    // Somebody who resumes from the last number it saw misses nothing, though others are being written.
    let (mut seen, mut after) = (Vec::new(), 0);
    while seen.len() < 200 {
        for event in stores[0].events(None, after, 7).await.unwrap() {
            assert_eq!(event.sequence, after + 1, "a number was skipped");
            after = event.sequence;
            seen.push(event.event.body.as_str().to_owned());
        }
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 200);
    assert_eq!(stores[1].latest_event().await.unwrap(), 200);
    assert_eq!(stores[1].events(Some("alice"), 0, 100).await.unwrap().len(), 20);
}
