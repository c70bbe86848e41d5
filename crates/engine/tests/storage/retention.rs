//! What is old goes, what is not stays, and writing goes on meanwhile.

use crate::world::{World, execution_id_at, json, on_every_database, outcome, session, submission};
use engine::storage::{
    Attachment, Claim, Claimed, NewEvent, ObjectKey, Outcome, Pruned, Retention, SessionStatus, Submission,
};
use futures_util::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;

on_every_database![
    the_old_goes_and_the_rest_stays,
    writers_go_on_while_history_is_pruned,
    objects_without_an_execution_are_swept,
];

const DAY: Duration = Duration::from_secs(24 * 3600);
const DAY_MS: i64 = 24 * 3600 * 1000;
const NOW: i64 = 1_800_000_000_000;

fn everything_older_than_a_day() -> Retention {
    Retention { executions: Some(DAY), events: Some(DAY), claims: Some(DAY), sessions: Some(DAY) }
}

fn with_object() -> Outcome {
    let objects = vec![Attachment { name: "stdout".into(), content: Arc::new(b"long".to_vec()) }];
    Outcome { objects, ..outcome() }
}

async fn the_old_goes_and_the_rest_stays(world: World) {
    let store = world.open().await;
    let ages = [NOW - 2 * DAY_MS, NOW - DAY_MS - 1, NOW - DAY_MS, NOW];
    let mut executions = Vec::new();
    for (index, at) in ages.into_iter().enumerate() {
        for number in 0..150 {
            let id = execution_id_at(at, number);
            let one = Submission { id, created_at: at, ..submission("alice") };
            store.record(&one, &if number == 0 { with_object() } else { outcome() }).await.unwrap();
            executions.push((at, one));
        }
        let claim = Claim::new("alice", &format!("key{index}"), b"", "made", at).unwrap();
        store.claim(&claim).await.unwrap();
        let (kind, subject) = ("session.ready".into(), "s1".into());
        let event = NewEvent { owner: "alice".into(), kind, subject, at, body: json(&index) };
        store.add_event(&event).await.unwrap();
        let ended = session("alice", &format!("ended{index}"));
        store.create_session(&ended, None).await.unwrap();
        store.move_session(&ended, SessionStatus::Terminated, at, None).await.unwrap();
    }
    store.create_session(&session("alice", "alive"), None).await.unwrap();
    let unfinished = Submission { id: execution_id_at(ages[0], 999), ..submission("alice") };
    store.submit(&unfinished, None).await.unwrap();

    assert_eq!(
        store.prune(&Retention::default(), NOW).await.unwrap(),
        Pruned::default(),
        "nothing unless asked"
    );
    let pruned = store.prune(&everything_older_than_a_day(), NOW).await.unwrap();
    assert_eq!(pruned, Pruned { executions: 300, objects: 2, events: 2, claims: 2, sessions: 2 });
    assert_eq!(store.prune(&everything_older_than_a_day(), NOW).await.unwrap(), Pruned::default());

    for (at, one) in executions {
        assert_eq!(store.execution("alice", &one.id).await.is_ok(), at >= NOW - DAY_MS);
    }
    for (index, at) in ages.into_iter().enumerate() {
        let claim = Claim::new("alice", &format!("key{index}"), b"", "other", at).unwrap();
        let kept = Claimed::Before { made: "made".into(), at };
        let expected = if at >= NOW - DAY_MS { kept } else { Claimed::Won };
        assert_eq!(store.claim(&claim).await.unwrap(), expected);
    }
    let events = store.events(None, 0, 100).await.unwrap();
    assert_eq!(events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(store.latest_event().await.unwrap(), 4, "numbers go on where they were");
    assert!(store.session("alice", "alive").await.is_ok());
    assert!(
        store.session("alice", "ended1").await.is_err() && store.session("alice", "ended2").await.is_ok()
    );
    assert!(store.execution("alice", &unfinished.id).await.is_ok(), "what is not over is not history");
    let left: Vec<_> = store.objects().list(&"executions".parse().unwrap()).try_collect().await.unwrap();
    assert_eq!(left.len(), 2, "{left:?}");
}

async fn writers_go_on_while_history_is_pruned(world: World) {
    let store = Arc::new(world.open().await);
    let mut filling = tokio::task::JoinSet::new();
    for number in 0..1500 {
        let store = store.clone();
        let one = Submission { id: execution_id_at(NOW - 2 * DAY_MS, number), ..submission("alice") };
        filling.spawn(async move { store.record(&one, &outcome()).await.unwrap() });
    }
    filling.join_all().await;
    let pruning = tokio::spawn({
        let store = store.clone();
        async move { store.prune(&everything_older_than_a_day(), NOW).await.unwrap() }
    });
    let mut written = 0;
    while !pruning.is_finished() {
        let id = execution_id_at(NOW, written);
        store.record(&Submission { id, ..submission("alice") }, &outcome()).await.unwrap();
        written += 1;
    }
    assert_eq!(pruning.await.unwrap().executions, 1500);
    assert!(written > 1, "pruning let nobody write");
    let left = store.executions("alice", None, None, 1000).await.unwrap().items;
    assert_eq!(left.len() as u64, written.min(1000));
}

async fn objects_without_an_execution_are_swept(world: World) {
    let store = world.open().await;
    let put = async |at, number| {
        let id = execution_id_at(at, number);
        let key = ObjectKey::new(&["executions", &id, "stdout"]).unwrap();
        store.objects().put_bytes(&key, vec![1]).await.unwrap();
        (id, key)
    };
    let (orphan, _) = put(NOW - DAY_MS, 1).await;
    let (_, young) = put(NOW - 1000, 2).await;
    let owned = Submission { id: execution_id_at(NOW - DAY_MS, 3), ..submission("alice") };
    store.record(&owned, &with_object()).await.unwrap();
    let waiting = Submission { id: put(NOW - DAY_MS, 4).await.0, ..submission("alice") };
    store.submit(&waiting, None).await.unwrap();
    assert_eq!(store.sweep_objects(NOW).await.unwrap(), 1);
    let left: Vec<_> = store.objects().list(&"executions".parse().unwrap()).try_collect().await.unwrap();
    let names: Vec<_> = left.iter().map(|one| one.key.to_string()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&young.to_string()) && !names.iter().any(|name| name.contains(&orphan)));
}
