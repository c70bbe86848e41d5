//! Opening: from nothing, again, at the same time, and what must not be opened.

use crate::world::{Kind, World, on_every_database, outcome, submission};
use engine::storage::{DatabaseUrl, Store, StoreError, StoreSettings};
use sqlx::Executor;
use std::os::unix::fs::PermissionsExt;
use tokio::task::JoinSet;

on_every_database![
    what_was_stored_is_there_after_opening_again,
    several_may_open_an_empty_database_at_once,
    a_newer_database_is_refused,
    another_programs_database_is_refused,
    nothing_works_after_closing,
    a_wrong_password_is_a_setting_and_is_not_shown,
];

async fn refused(world: &World) -> StoreError {
    Store::open(&world.address(), world.objects(), StoreSettings::default()).await.unwrap_err()
}

async fn what_was_stored_is_there_after_opening_again(world: World) {
    let one = submission("alice");
    let store = world.open().await;
    store.record(&one, &outcome()).await.unwrap();
    store.close().await;
    let again = world.open().await;
    assert_eq!(again.execution("alice", &one.id).await.unwrap().submission, one);
    again.record(&submission("alice"), &outcome()).await.unwrap();
}

async fn several_may_open_an_empty_database_at_once(world: World) {
    let mut opening = JoinSet::new();
    for _ in 0..6 {
        let (address, objects) = (world.address(), world.objects());
        opening.spawn(async move { Store::open(&address, objects, StoreSettings::default()).await });
    }
    for opened in opening.join_all().await {
        opened.unwrap().record(&submission("alice"), &outcome()).await.unwrap();
    }
    let store = world.open().await;
    assert_eq!(store.executions("alice", None, None, 10).await.unwrap().items.len(), 6);
}

async fn a_newer_database_is_refused(world: World) {
    world.open().await.close().await;
    let row = match world.kind {
        Kind::Postgres => "VALUES (999, 'later', TRUE, '\\x00', 0)",
        Kind::Sqlite | Kind::MariaDb => "VALUES (999, 'later', TRUE, x'00', 0)",
    };
    let insert = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) ";
    let statement = sqlx::AssertSqlSafe(format!("{insert}{row}"));
    world.raw().await.execute(statement).await.unwrap();
    let error = refused(&world).await;
    assert_eq!(error, StoreError::Newer { found: 999, known: 2 });
    assert!(error.hint().unwrap().contains("version of sandboxd"));
}

async fn another_programs_database_is_refused(world: World) {
    world.open().await.close().await;
    let change = match world.kind {
        Kind::Postgres => "UPDATE _sqlx_migrations SET checksum = '\\x00'",
        Kind::Sqlite | Kind::MariaDb => "UPDATE _sqlx_migrations SET checksum = x'00'",
    };
    world.raw().await.execute(change).await.unwrap();
    let error = refused(&world).await;
    assert!(matches!(error, StoreError::Settings { .. }), "{error:?}");
}

async fn nothing_works_after_closing(world: World) {
    let store = world.open().await;
    store.close().await;
    let told = store.record(&submission("alice"), &outcome()).await.unwrap_err();
    assert!(told.is_retryable(), "{told:?}");
    assert!(store.check().await.unwrap_err().is_retryable());
}

async fn a_wrong_password_is_a_setting_and_is_not_shown(mut world: World) {
    if world.kind == Kind::Sqlite {
        return;
    }
    let (scheme, rest) = world.url.split_once("://").unwrap();
    let (_, host) = rest.rsplit_once('@').unwrap();
    world.url = format!("{scheme}://sandboxd:hunter2@{host}");
    let error = refused(&world).await;
    assert!(matches!(error, StoreError::Settings { .. }), "{error:?}");
    assert!(!format!("{error} {error:?} {:?}", world.address()).contains("hunter2"));
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_not_shown() {
    let world = World::new(Kind::Sqlite).await.unwrap();
    for text in [
        "mysql://me:hunter2@host:port/x",
        "postgres://me:hunter2@h/x?sslmode=hunter2",
        "mysql://hun ter2@/%zz",
    ] {
        let url: DatabaseUrl = text.parse().unwrap();
        let told = Store::open(&url, world.objects(), StoreSettings::default()).await.unwrap_err();
        assert!(matches!(told, StoreError::Settings { .. } | StoreError::Unavailable { .. }), "{told:?}");
        assert!(!format!("{told} {told:?} {url:?}").contains("hunter2"), "{told:?}");
    }
}

#[tokio::test]
async fn files_are_their_owners_alone() {
    let world = World::new(Kind::Sqlite).await.unwrap();
    let store = world.open().await;
    store.record(&submission("alice"), &outcome()).await.unwrap();
    let state = world.directory.path().join("state");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&world.directory.path().join("objects")), 0o700);
    let files: Vec<_> = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3, "the database and its log: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_file_that_is_something_else_is_left_alone() {
    let world = World::new(Kind::Sqlite).await.unwrap();
    let path = world.directory.path().join("letter.txt");
    let letter = "Dear reader, this is no database. ".repeat(100);
    std::fs::write(&path, &letter).unwrap();
    let url = DatabaseUrl::file(&path);
    let error = Store::open(&url, world.objects(), StoreSettings::default()).await.unwrap_err();
    assert!(matches!(error, StoreError::Settings { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), letter);
}

#[tokio::test]
async fn a_place_that_cannot_be_used_is_named() {
    let world = World::new(Kind::Sqlite).await.unwrap();
    for path in ["/proc/nowhere/db.sqlite", "/dev"] {
        let url = DatabaseUrl::file(path);
        let error = Store::open(&url, world.objects(), StoreSettings::default()).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Settings { message, .. } if message.contains("`/")),
            "{error:?}"
        );
    }
}
