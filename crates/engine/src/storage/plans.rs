//! Every lookup uses an index, on every database, with a hundred thousand executions in it. The database is asked how
//! it would find the rows; nothing is timed.

use super::statement::{Columns, Statement, Value, values};
use super::url::{DatabaseUrl, Dialect};
use super::{
    Objects, Store, StoreSettings, claims, events, history, keys, nodes, retention, sessions, templates,
    webhooks,
};
use sqlx::AnyConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

/// Lookups, with values of the right types.
fn lookups() -> Vec<(&'static str, &'static Statement, Vec<Value>)> {
    let at = "exec_000000015f907000";
    // One that is there: MariaDB looks at constant rows while it plans.
    let one = "exec_0000000003e870008000000000000000";
    let (piece, most) = (20, super::MOST_COUNTED);
    vec![
        ("execution", &history::SELECT, values![one]),
        ("unfinished execution", &history::SELECT_UNFINISHED, values![one]),
        ("executions of an owner", &history::LIST, values!["o1", at, piece]),
        ("unfinished of an owner", &history::LIST_UNFINISHED, values!["o1", at, piece]),
        ("executions of a session", &history::OF_SESSION, values!["o1", "s1", at, piece]),
        ("unfinished of a session", &history::OF_SESSION_UNFINISHED, values!["o1", "s1", at, piece]),
        ("count of an owner", &history::COUNT, values!["o1", at, most]),
        ("count of unfinished of an owner", &history::COUNT_UNFINISHED, values!["o1", at, most]),
        ("count of a session", &history::COUNT_OF_SESSION, values!["o1", "s1", at, most]),
        (
            "count of unfinished of a session",
            &history::COUNT_OF_SESSION_UNFINISHED,
            values!["o1", "s1", at, piece],
        ),
        ("all unfinished", &history::ALL_UNFINISHED, values![at, piece]),
        ("old executions", &retention::OLD_EXECUTIONS, values!["exec_000000000100", piece]),
        ("old events", &retention::OLD_EVENTS, values![900, piece]),
        ("old claims", &retention::OLD_CLAIMS, values![20, piece]),
        ("claim", &claims::SELECT, values!["c1"]),
        ("session", &sessions::SELECT, values!["o1", "s1"]),
        ("session of an agent", &sessions::BY_AGENT, values!["o1", "a1", "ready"]),
        ("due sessions", &sessions::DUE, values!["ready", 20, 0, 0, "", "", "", piece]),
        ("sessions", &sessions::LIST, values!["o1", 20, 20, "s1", "", "", piece]),
        ("sessions of a status", &sessions::LIST_STATUS, values!["o1", "ready", 20, 20, "s1", "", "", piece]),
        ("count of sessions", &sessions::COUNT, values!["o1", 20, "", "", most]),
        ("count of sessions of a status", &sessions::COUNT_STATUS, values!["o1", "ready", 20, "", "", most]),
        ("states of a session", &sessions::HISTORY, values!["o1", "s1", 0, piece]),
        ("events", &events::LIST, values![900, piece]),
        ("events of an owner", &events::LIST_OWNER, values!["o1", 900, piece]),
        ("newest event", &events::LATEST, values![]),
        ("key", &keys::SELECT, values!["k1"]),
        ("keys", &keys::LIST, values!["k1", piece]),
        ("keys of a tenant", &keys::LIST_TENANT, values!["o1", "k1", piece]),
        ("template", &templates::SELECT, values!["t1"]),
        ("templates", &templates::LIST, values!["t1", piece]),
        ("webhook", &webhooks::SELECT, values!["w1"]),
        ("webhooks", &webhooks::LIST, values!["w1", piece]),
        ("webhooks of an owner", &webhooks::LIST_OWNER, values!["o1", "w1", piece]),
        ("nodes", &nodes::LIST, values!["n1", piece]),
    ]
}

const EXECUTIONS: usize = 100_000;

/// Many rows, by statements that insert a thousand at a time.
async fn fill(connection: &mut AnyConnection) {
    let insert = async |connection: &mut AnyConnection, into: &str, count, row: &dyn Fn(usize) -> String| {
        for start in (0..count).step_by(1000) {
            let rows: Vec<_> = (start..count.min(start + 1000)).map(row).collect();
            let text = format!("INSERT INTO {into} VALUES {}", rows.join(", "));
            connection.execute(AssertSqlSafe(text)).await.unwrap();
        }
    };
    let id = |n: usize| format!("exec_{n:012x}70008000000000000000");
    let finished = |n| {
        let (owner, session) = (n % 50, n % 500);
        format!(
            "('{}', 'o{owner}', 's{session}', 'python', 'completed', {n}, {n}, '{{}}', '{{}}', NULL)",
            id(n)
        )
    };
    insert(connection, "executions", EXECUTIONS, &finished).await;
    let waiting = |n| {
        let (owner, session) = (n % 50, n % 500);
        format!("('{}', 'o{owner}', 's{session}', NULL, 'python', 'pending', 0, {n}, NULL, '{{}}')", id(n))
    };
    insert(connection, "unfinished_executions", 3000, &waiting).await;
    let session = |n| {
        let (owner, status) = (n % 50, ["ready", "terminated", "failed"][n % 3]);
        format!(
            "('o{owner}', 's{n}', 't1', 'a{}', 'persistent', '{status}', '{{}}', NULL, NULL, NULL, -1, -1, {n}, {n}, \
             {n}, NULL, 1)",
            n % 100
        )
    };
    insert(connection, "sessions", 3000, &session).await;
    let state = |n| format!("('o{}', 's{}', {n}, NULL, 'creating', {n}, NULL)", n % 50, n % 1500);
    insert(connection, "session_states", 3000, &state).await;
    insert(connection, "claims", 3000, &|n| format!("('c{n}', 'x', 'o1', 'h', 'm', {n})")).await;
    insert(connection, "events", 3000, &|n| format!("({n}, 'o{}', 'k', 's', {n}, '{{}}')", n % 50)).await;
    let key = |n| format!("('k{n}', 'o{}', 'n', 'h', '[]', '{{}}', 1, NULL, NULL, NULL)", n % 50);
    insert(connection, "api_keys", 3000, &key).await;
    insert(connection, "templates", 3000, &|n| format!("('t{n}', 'name{n}', '{{}}', 1, 1)")).await;
    let webhook = |n| format!("('w{n}', 'o{}', 'u', '[]', 's', 1, 0, 0, 1, NULL, NULL, 0)", n % 50);
    insert(connection, "webhooks", 3000, &webhook).await;
    insert(connection, "nodes", 3000, &|n| format!("('n{n}', 'online', '{{}}', '{{}}', 1, 1)")).await;
}

/// What is wrong with how this database finds the rows of a statement, and how it does.
async fn fault(
    connection: &mut AnyConnection,
    dialect: Dialect,
    statement: &'static Statement,
    values: &[Value],
) -> (Option<&'static str>, String) {
    let explain = if dialect == Dialect::Sqlite { "EXPLAIN QUERY PLAN" } else { "EXPLAIN" };
    let text = AssertSqlSafe(format!("{explain} {}", statement.on(dialect)));
    let query = values.iter().fold(sqlx::query(text), |query, value| match value {
        Value::Text(text) => query.bind(text.clone()),
        Value::Number(number) => query.bind(*number),
    });
    let rows = query.fetch_all(connection).await.unwrap();
    let mut plan = String::new();
    for row in &rows {
        let last = row.len() - 1;
        match dialect {
            // What a count has found already is only counted; how it was found is asked all the same.
            Dialect::Sqlite if row.get::<String, _>(last) == "SCAN found" => {}
            Dialect::Sqlite => plan += &format!("{}; ", row.get::<String, _>(last)),
            Dialect::Postgres => plan += &format!("{}; ", Columns::of(row).next::<String>().unwrap()),
            Dialect::MySql => {
                let text = |index: usize| row.try_get::<Option<String>, _>(index).ok().flatten();
                if text(2).is_some_and(|table| table.starts_with("<derived")) {
                    continue;
                }
                let (kind, key, extra) = (text(3), text(5), text(last));
                plan += &format!("type {kind:?} key {key:?} {extra:?}; ");
            }
        }
    }
    let faults: &[&str] = match dialect {
        Dialect::Sqlite => &["SCAN", "TEMP B-TREE"],
        Dialect::Postgres => &["Seq Scan", "Sort"],
        Dialect::MySql => &["type Some(\"ALL\")", "key None", "filesort"],
    };
    let found = faults.iter().find(|fault| plan.contains(**fault));
    (found.copied(), plan)
}

async fn every_lookup_uses_an_index(url: &str) {
    let directory = tempfile::TempDir::new().unwrap();
    let url: DatabaseUrl = url.parse().unwrap();
    let objects = Objects::in_directory(directory.path()).unwrap();
    Store::open(&url, objects, StoreSettings::default()).await.unwrap().close().await;
    let mut connection = AnyConnection::connect(&url.secret()).await.unwrap();
    fill(&mut connection).await;
    let tables = "executions, unfinished_executions, sessions, session_states, claims, events, api_keys, templates, \
                  webhooks, nodes";
    let settle = match url.dialect() {
        Dialect::Sqlite => "ANALYZE".to_owned(),
        Dialect::MySql => format!("ANALYZE TABLE {tables}"),
        // It would sort a handful of rows rather than walk an index; the question is whether it has to.
        Dialect::Postgres => "ANALYZE; SET enable_sort = off; SET enable_bitmapscan = off".to_owned(),
    };
    connection.execute(AssertSqlSafe(settle)).await.unwrap();
    let mut wrong = Vec::new();
    for (name, statement, values) in lookups() {
        // There is one counter, so there is nothing to look through.
        if name == "newest event" && url.dialect() != Dialect::Sqlite {
            continue;
        }
        let (fault, plan) = fault(&mut connection, url.dialect(), statement, &values).await;
        if fault.is_some() {
            wrong.push(format!("{name}: {plan}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // And this would have noticed.
    static WITHOUT: Statement = Statement::new("SELECT id FROM executions WHERE language = ? LIMIT 1");
    let (fault, plan) = fault(&mut connection, url.dialect(), &WITHOUT, &[Value::from("ruby")]).await;
    assert!(fault.is_some(), "{plan}");
}

/// A database of its own on a server that `scripts/with-databases` started.
async fn on_server(variable: &str) {
    let Ok(server) = std::env::var(variable) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "`{variable}` is not set: run this by `scripts/with-databases`"
        );
        eprintln!("skipped: `{variable}` is not set, so there is no such server");
        return;
    };
    sqlx::any::install_default_drivers();
    let mut admin = AnyConnection::connect(&server).await.unwrap();
    let name = format!("p{}", uuid::Uuid::now_v7().simple());
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    every_lookup_uses_an_index(&format!("{base}/{name}")).await;
}

#[tokio::test]
async fn sqlite() {
    let directory = tempfile::TempDir::new().unwrap();
    every_lookup_uses_an_index(&format!("sqlite://{}/db", directory.path().display())).await;
}

#[tokio::test]
async fn mariadb() {
    on_server("SANDBOXD_TEST_MYSQL").await;
}

#[tokio::test]
async fn postgres() {
    on_server("SANDBOXD_TEST_POSTGRES").await;
}
