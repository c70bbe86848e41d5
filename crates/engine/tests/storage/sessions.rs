//! Sessions: states, history, deadlines, agents, and what they need.

use crate::world::{World, json, on_every_database, outcome, session, submission};
use engine::storage::{
    Attachment, Cursor, ObjectKey, Outcome, Session, SessionFilter, SessionStatus, Store, StoreError,
    Submission, Template,
};
use futures_util::TryStreamExt;
use std::sync::Arc;

on_every_database![
    a_state_changes_only_for_whoever_knows_it,
    activity_puts_off_the_end,
    an_agent_gets_its_session_back,
    ids_are_unique_for_each_owner,
    lists_are_newest_first_and_hold_still,
    a_template_in_use_stays,
    purging_leaves_nothing,
];

async fn moved(store: &Store, owner: &str, id: &str, path: &[SessionStatus]) -> Session {
    for (index, to) in path.iter().enumerate() {
        let now = store.session(owner, id).await.unwrap();
        store.move_session(&now, *to, 100 + index as i64, None).await.unwrap();
    }
    store.session(owner, id).await.unwrap()
}

async fn a_state_changes_only_for_whoever_knows_it(world: World) {
    let store = world.open().await;
    let made = session("alice", "s1");
    store.create_session(&made, None).await.unwrap();
    assert_eq!(store.session("alice", "s1").await.unwrap(), made);
    store.move_session(&made, SessionStatus::Ready, 20, Some("its sandbox stands ☃")).await.unwrap();
    let late = store.move_session(&made, SessionStatus::Failed, 21, None).await;
    assert!(matches!(late, Err(StoreError::Conflict { .. })), "{late:?}");
    let ready = store.session("alice", "s1").await.unwrap();
    let illegal = store.move_session(&ready, SessionStatus::Creating, 22, None).await;
    assert!(matches!(illegal, Err(StoreError::Conflict { .. })), "{illegal:?}");
    let nobody =
        store.move_session(&Session { id: "s2".into(), ..ready }, SessionStatus::Paused, 22, None).await;
    assert_eq!(nobody, Err(StoreError::NotFound { what: "session" }));

    let ended = moved(&store, "alice", "s1", &[SessionStatus::Stopping, SessionStatus::Terminated]).await;
    assert_eq!((ended.ended_at, ended.transitions), (Some(101), 4));
    let first = store.session_history("alice", "s1", None, 3).await.unwrap();
    let second = store.session_history("alice", "s1", first.next.as_ref(), 3).await.unwrap();
    let history: Vec<_> = first.items.into_iter().chain(second.items).collect();
    let states: Vec<_> = history.iter().map(|one| (one.number, one.from, one.to)).collect();
    use SessionStatus::*;
    let expected = [
        (1, None, Creating),
        (2, Some(Creating), Ready),
        (3, Some(Ready), Stopping),
        (4, Some(Stopping), Terminated),
    ];
    assert_eq!(states, expected);
    assert_eq!(history[1].reason.as_deref(), Some("its sandbox stands ☃"));
}

async fn activity_puts_off_the_end(world: World) {
    let store = world.open().await;
    for (id, idle_ms, lifetime_ms) in
        [("idle", 1000, -1), ("old", -1, 500), ("ever", -1, -1), ("far", i64::MAX, -1)]
    {
        let one = Session { idle_ms, lifetime_ms, ..session("alice", id) };
        store.create_session(&one, None).await.unwrap();
    }
    let due = async |at| {
        let page = store.due_sessions(SessionStatus::Creating, at, None, 10).await.unwrap();
        page.items.into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    assert!(due(509).await.is_empty());
    assert_eq!(due(510).await, ["old"]);
    assert_eq!(due(1010).await, ["old", "idle"], "the most overdue first");
    let idle = store.session("alice", "idle").await.unwrap();
    store.touch_session(&idle, 5000).await.unwrap();
    store.touch_session(&idle, 4000).await.unwrap();
    assert_eq!(store.session("alice", "idle").await.unwrap().last_activity_at, 5000);
    assert_eq!(due(5999).await, ["old"]);
    assert_eq!(due(6000).await, ["old", "idle"]);
    // When a server starts it looks through all of them, in pieces, and those that stay do not repeat.
    let (mut all, mut cursor) = (Vec::new(), None::<Cursor>);
    loop {
        let page = store.due_sessions(SessionStatus::Creating, i64::MAX, cursor.as_ref(), 1).await.unwrap();
        all.extend(page.items.into_iter().map(|one| one.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(all, ["old", "idle", "ever", "far"]);
}

async fn an_agent_gets_its_session_back(world: World) {
    let store = world.open().await;
    for (id, at, agent) in [("s1", 10, "agent 7"), ("s2", 20, "agent 7"), ("s3", 30, "Agent 7")] {
        let one = Session { agent_id: Some(agent.into()), created_at: at, ..session("alice", id) };
        store.create_session(&one, None).await.unwrap();
    }
    assert_eq!(store.session_of_agent("alice", "agent 7").await.unwrap(), None, "none is ready");
    moved(&store, "alice", "s1", &[SessionStatus::Ready]).await;
    moved(&store, "alice", "s2", &[SessionStatus::Ready, SessionStatus::Running]).await;
    moved(&store, "alice", "s3", &[SessionStatus::Ready]).await;
    assert_eq!(store.session_of_agent("alice", "agent 7").await.unwrap().unwrap().id, "s1");
    moved(&store, "alice", "s1", &[SessionStatus::Terminated]).await;
    assert_eq!(store.session_of_agent("alice", "agent 7").await.unwrap().unwrap().id, "s2");
    assert_eq!(store.session_of_agent("bob", "agent 7").await.unwrap(), None);
    let wrong = Session { agent_id: Some("agent 7 ".into()), ..session("alice", "s4") };
    let wrong = store.create_session(&wrong, None).await;
    assert!(matches!(wrong, Err(StoreError::Invalid { field: "agent_id", .. })), "{wrong:?}");
}

async fn ids_are_unique_for_each_owner(world: World) {
    let store = world.open().await;
    store.create_session(&session("alice", "same"), None).await.unwrap();
    store.create_session(&session("bob", "same"), None).await.unwrap();
    store.create_session(&session("alice", "SAME"), None).await.unwrap();
    let twice = store.create_session(&session("alice", "same"), None).await;
    assert_eq!(twice, Err(StoreError::Conflict { what: "session", why: "exists already" }));
    assert_eq!(store.session_history("alice", "same", None, 10).await.unwrap().items.len(), 1);
    store.place_session("alice", "same", Some("local"), Some("box 1")).await.unwrap();
    assert_eq!(store.session("bob", "same").await.unwrap().node, None);
}

async fn lists_are_newest_first_and_hold_still(world: World) {
    let store = world.open().await;
    // Many at the same time, which only ids tell apart.
    for number in 0..20 {
        let template = if number % 2 == 0 { "even" } else { "odd" };
        let (id, created_at) = (format!("s{number:02}"), 100 + number / 5);
        let one = Session { template: template.into(), created_at, ..session("alice", &id) };
        store.create_session(&one, None).await.unwrap();
    }
    moved(&store, "alice", "s03", &[SessionStatus::Ready]).await;
    let list = async |filter: SessionFilter<'static>| {
        let (mut all, mut cursor) = (Vec::new(), None::<Cursor>);
        loop {
            let page = store.sessions("alice", filter, cursor.as_ref(), 3).await.unwrap();
            all.extend(page.items.into_iter().map(|one| one.id));
            let new = Session {
                created_at: 1000,
                ..session("alice", &format!("new{}", uuid::Uuid::now_v7().simple()))
            };
            store.create_session(&new, None).await.unwrap();
            cursor = page.next;
            if cursor.is_none() {
                return all;
            }
        }
    };
    let named = |range: &mut dyn Iterator<Item = i32>| range.map(|n| format!("s{n:02}")).collect::<Vec<_>>();
    assert_eq!(list(SessionFilter::default()).await, named(&mut (0..20).rev()));
    let even = SessionFilter { template: Some("even"), ..SessionFilter::default() };
    assert_eq!(list(even).await, named(&mut (0..20).rev().filter(|n| n % 2 == 0)));
    let ready = SessionFilter { status: Some(SessionStatus::Ready), ..SessionFilter::default() };
    assert_eq!(list(ready).await, ["s03"]);
    let both = SessionFilter { status: Some(SessionStatus::Ready), template: Some("even") };
    assert!(list(both).await.is_empty());
}

async fn a_template_in_use_stays(world: World) {
    let store = world.open().await;
    let template = Template {
        id: "python-basic".into(),
        name: "Python, basic".into(),
        spec: json(&serde_json::json!({ "language": "python" })),
        created_at: 1,
        updated_at: 1,
    };
    store.create_template(&template).await.unwrap();
    let same_name = Template { id: "other".into(), ..template.clone() };
    assert!(matches!(store.create_template(&same_name).await, Err(StoreError::Conflict { .. })));
    store.create_session(&session("alice", "s1"), None).await.unwrap();
    let used = store.delete_template("python-basic").await;
    assert_eq!(used, Err(StoreError::Conflict { what: "template", why: "is used by sessions" }));
    assert_eq!(store.template("python-basic").await.unwrap(), template);
    moved(&store, "alice", "s1", &[SessionStatus::Terminated]).await;
    store.delete_template("python-basic").await.unwrap();
    assert_eq!(store.delete_template("python-basic").await, Err(StoreError::NotFound { what: "template" }));
}

async fn purging_leaves_nothing(world: World) {
    let store = world.open().await;
    store.create_session(&session("alice", "s1"), None).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..150 {
        let one = Submission { session_id: Some("s1".into()), ..submission("alice") };
        let content = Arc::new(b"long".to_vec());
        let objects =
            if number % 50 == 0 { vec![Attachment { name: "stdout".into(), content }] } else { vec![] };
        match number {
            149 => drop(store.submit(&one, None).await.unwrap()),
            _ => store.record(&one, &Outcome { objects, ..outcome() }).await.unwrap(),
        }
        ids.push(one.id);
    }
    let other = submission("alice");
    store.record(&other, &outcome()).await.unwrap();
    let workspace = ObjectKey::new(&["workspaces", "alice", "s1"]).unwrap();
    store.objects().put_bytes(&workspace, vec![1, 2, 3]).await.unwrap();
    store.keep_workspace("alice", "s1", Some(&workspace.to_string())).await.unwrap();

    let own = store.session("alice", "s1").await.unwrap();
    let missing = Err(StoreError::NotFound { what: "session" });
    let before = Session { created_at: own.created_at - 1, ..own.clone() };
    assert_eq!(store.purge_session(&before).await, missing);
    assert!(store.execution("alice", &ids[0]).await.is_ok(), "of another one of that name");
    store.purge_session(&own).await.unwrap();
    assert_eq!(store.session("alice", "s1").await, Err(StoreError::NotFound { what: "session" }));
    assert!(store.session_history("alice", "s1", None, 10).await.unwrap().items.is_empty());
    for id in ids {
        assert!(store.execution("alice", &id).await.is_err());
    }
    for prefix in ["executions", "workspaces"] {
        let left: Vec<_> = store.objects().list(&prefix.parse().unwrap()).try_collect().await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
    assert!(store.execution("alice", &other.id).await.is_ok());
    assert_eq!(store.purge_session(&own).await, missing);
}
