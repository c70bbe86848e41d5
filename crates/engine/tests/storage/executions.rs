//! Executions: what is stored is what comes back, and lists do not slip.

use crate::world::{World, execution_id, json, on_every_database, outcome, submission};
use engine::storage::{
    Attachment, Claimed, Cursor, ExecutionStatus, MAX_RECORD, Outcome, Progress, StoreError, StoredExecution,
    Submission,
};
use std::sync::Arc;
use tokio::io::AsyncReadExt;

on_every_database![
    a_page_fits_into_memory,
    every_character_and_every_number_comes_back,
    what_does_not_fit_is_named_before_it_is_sent,
    nobody_sees_what_belongs_to_others,
    an_execution_goes_from_state_to_state_and_ends_once,
    lists_hold_still_while_rows_come_and_go,
    long_output_is_an_object_that_the_row_names,
];

async fn every_character_and_every_number_comes_back(world: World) {
    let store = world.open().await;
    let nasty = [
        "",
        "😀 ☃ é e\u{301}",
        "a\0b",
        "\u{7f}\u{1}\\ \" ' ; -- $1 ? %s",
        "  trailing  ",
        &"x".repeat(1 << 20),
    ];
    for text in nasty {
        for number in [i64::MIN, -1, 0, i64::MAX] {
            let submission = Submission { request: json(&text), created_at: number, ..submission("alice") };
            let outcome = Outcome { record: json(&text), finished_at: number, ..outcome() };
            store.record(&submission, &outcome).await.unwrap();
            let found = store.execution("alice", &submission.id).await.unwrap();
            let Outcome { record, .. } = outcome;
            let progress = Progress::Finished { finished_at: number, record, objects: vec![] };
            assert_eq!(found, StoredExecution { submission, status: ExecutionStatus::Completed, progress });
        }
    }
}

/// Executions that hold as much as they may come in smaller pieces, and none is left out.
async fn a_page_fits_into_memory(world: World) {
    let store = world.open().await;
    let long = json(&"x".repeat(MAX_RECORD - 2));
    let mut expected = Vec::new();
    for number in 0..6 {
        let one = Submission { request: long.clone(), ..submission("alice") };
        match number % 3 {
            0 => drop(store.submit(&one, None).await.unwrap()),
            _ => store.record(&one, &Outcome { record: long.clone(), ..outcome() }).await.unwrap(),
        }
        expected.insert(0, one.id);
    }
    let (mut found, mut cursor) = (Vec::new(), None::<Cursor>);
    loop {
        let page = store.executions("alice", None, cursor.as_ref(), 1000).await.unwrap();
        assert!(page.items.len() < 6, "all of them at once");
        found.extend(page.items.into_iter().map(|row| row.submission.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);
}

async fn what_does_not_fit_is_named_before_it_is_sent(world: World) {
    let store = world.open().await;
    let long = "x".repeat(65);
    let owner = store.record(&Submission { owner: long.clone(), ..submission("a") }, &outcome()).await;
    assert!(matches!(owner, Err(StoreError::TooLong { field: "owner", limit: 64, .. })), "{owner:?}");
    let request = Submission { request: json(&"x".repeat(MAX_RECORD)), ..submission("a") };
    let request = store.record(&request, &outcome()).await;
    assert!(matches!(request, Err(StoreError::TooLong { field: "request", .. })), "{request:?}");
    let id = store.record(&Submission { id: "1".into(), ..submission("a") }, &outcome()).await;
    assert!(matches!(id, Err(StoreError::Invalid { field: "id", .. })), "{id:?}");
    let status = Outcome { status: ExecutionStatus::Running, ..outcome() };
    let status = store.record(&submission("a"), &status).await;
    assert!(matches!(status, Err(StoreError::Invalid { field: "status", .. })), "{status:?}");
    assert!(store.executions("a", None, None, 10).await.unwrap().items.is_empty());
}

async fn nobody_sees_what_belongs_to_others(world: World) {
    let store = world.open().await;
    let hers = submission("alice");
    store.record(&hers, &outcome()).await.unwrap();
    let missing = StoreError::NotFound { what: "execution" };
    assert_eq!(store.execution("bob", &hers.id).await.unwrap_err(), missing);
    assert_eq!(store.execution("ALICE", &hers.id).await.unwrap_err(), missing, "case matters");
    assert_eq!(store.execution("alice", &execution_id()).await.unwrap_err(), missing);
    assert!(store.executions("bob", None, None, 10).await.unwrap().items.is_empty());
}

async fn an_execution_goes_from_state_to_state_and_ends_once(world: World) {
    let store = world.open().await;
    let one = Submission { session_id: Some("s1".into()), ..submission("alice") };
    assert_eq!(store.submit(&one, None).await.unwrap(), Claimed::Won);
    assert!(matches!(store.submit(&one, None).await, Err(StoreError::Conflict { .. })));
    assert_eq!(store.execution("alice", &one.id).await.unwrap().status, ExecutionStatus::Pending);
    assert!(matches!(store.crash(&one.id).await, Err(StoreError::Conflict { .. })), "it does not run");
    store.begin(&one.id, "local", 5).await.unwrap();
    assert!(matches!(store.begin(&one.id, "local", 6).await, Err(StoreError::Conflict { .. })));
    store.crash(&one.id).await.unwrap();
    store.begin(&one.id, "other", 7).await.unwrap();
    let found = store.execution("alice", &one.id).await.unwrap();
    let progress = Progress::Unfinished { node: Some("other".into()), attempts: 2, started_at: Some(7) };
    assert_eq!(
        found,
        StoredExecution { submission: one.clone(), status: ExecutionStatus::Running, progress }
    );
    assert_eq!(store.unfinished(None, 10).await.unwrap().items, [found]);

    store.finish(&one, &outcome()).await.unwrap();
    let again = Outcome { status: ExecutionStatus::Failed, ..outcome() };
    assert!(matches!(store.finish(&one, &again).await, Err(StoreError::Conflict { .. })));
    assert_eq!(store.execution("alice", &one.id).await.unwrap().status, ExecutionStatus::Completed);
    assert!(store.unfinished(None, 10).await.unwrap().items.is_empty());
    assert_eq!(store.executions("alice", Some("s1"), None, 10).await.unwrap().items.len(), 1);
}

/// Those that are over and those that are not are one list, in which nothing is twice and nothing is left out,
/// though rows are added and ended between its pieces.
async fn lists_hold_still_while_rows_come_and_go(world: World) {
    let store = world.open().await;
    let mut expected = Vec::new();
    for number in 0..60 {
        let one = submission("alice");
        if number % 3 == 0 {
            store.submit(&one, None).await.unwrap();
        } else {
            store.record(&one, &outcome()).await.unwrap();
        }
        store.record(&submission("bob"), &outcome()).await.unwrap();
        expected.push(one);
    }
    let mut found = Vec::new();
    let mut cursor: Option<Cursor> = None;
    let mut waiting = expected.iter().step_by(3);
    loop {
        let page = store.executions("alice", None, cursor.as_ref(), 7).await.unwrap();
        assert!(page.items.len() <= 7);
        found.extend(page.items.into_iter().map(|row| row.submission.id));
        // Meanwhile: a new one, which is at the other end, and the end of an old one.
        store.record(&submission("alice"), &outcome()).await.unwrap();
        if let Some(one) = waiting.next() {
            store.finish(one, &outcome()).await.unwrap();
        }
        cursor = match page.next {
            Some(next) => Some(Cursor::from_text(next.as_str()).unwrap()),
            None => break,
        };
    }
    let expected: Vec<_> = expected.into_iter().rev().map(|one| one.id).collect();
    assert_eq!(found, expected);
}

async fn long_output_is_an_object_that_the_row_names(world: World) {
    let store = world.open().await;
    let one = submission("alice");
    let content = Arc::new(vec![b'x'; 300_000]);
    let objects = vec![Attachment { name: "stdout".into(), content: content.clone() }];
    store.record(&one, &Outcome { objects, ..outcome() }).await.unwrap();
    let found = store.execution("alice", &one.id).await.unwrap();
    let Progress::Finished { objects, .. } = &found.progress else { panic!("it is over") };
    assert_eq!((objects[0].name.as_str(), objects[0].size), ("stdout", 300_000));
    let mut read = Vec::new();
    let mut stdout = store.attachment(&found, "stdout", None).await.unwrap();
    stdout.bytes.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, *content);
}
