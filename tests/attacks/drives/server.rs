//! Attacks on the server: by whoever has a token, beside what is somebody else's.

mod ending;
mod ids;
mod leaving;
mod taking;

use super::Drive;
use crate::served::Served;
use serde_json::{Value, json};

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("a_broken_database", ending::a_broken_database),
    ("cancels_at_random", ending::cancels_at_random),
    ("clients_who_leave", ending::clients_who_leave),
    ("files_while_a_program_swaps_them", ids::files_while_a_program_swaps_them),
    ("floods_of_messages", taking::floods_of_messages),
    ("foreign_ids_on_every_route", ids::foreign_ids_on_every_route),
    ("ids_and_paths_that_are_none", ids::ids_and_paths_that_are_none),
    ("lines_in_the_log", taking::lines_in_the_log),
    ("many_at_one_session", ending::many_at_one_session),
    ("many_tenants_at_once", leaving::many_tenants_at_once),
    ("one_key_from_many_sides", leaving::one_key_from_many_sides),
    ("output_is_whole_everywhere", leaving::output_is_whole_everywhere),
    ("readers_who_do_not_read", taking::readers_who_do_not_read),
    ("what_a_tenant_leaves", leaving::what_a_tenant_leaves),
    ("wishes_nobody_may_have", taking::wishes_nobody_may_have),
];

fn python(code: &str) -> Value {
    json!({"language": "python", "code": code})
}

/// A session that is gone when this is.
struct Session<'s> {
    served: &'s Served,
    token: &'s str,
    id: String,
}

impl<'s> Session<'s> {
    fn make(served: &'s Served, token: &'s str, id: &str) -> Session<'s> {
        served.post(token, "/api/v1/sessions", &json!({"id": id, "memory": "64M"})).is(201);
        Session { served, token, id: id.into() }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/sessions/{}{rest}", self.id)
    }

    /// Runs a program in it, to its end.
    fn run(&self, program: &Value) -> Value {
        self.served.post(self.token, &self.path("/execute-sync"), program).is(200)
    }

    fn put(&self, name: &str, content: &[u8]) {
        let kind = [("content-type", "application/octet-stream")];
        self.served.send(self.token, "PUT", &self.path(&format!("/files/{name}")), &kind, content).is(200);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let _ = self.served.ask(self.token, "DELETE", &self.path(""), &[], b"");
    }
}

/// Submits a program without waiting for it. Its id.
fn submit(served: &Served, token: &str, program: &Value) -> String {
    let headers = [("content-type", "application/json"), ("prefer", "respond-async")];
    let body = program.to_string();
    let accepted = served.send(token, "POST", "/api/v1/execute", &headers, body.as_bytes()).is(202);
    accepted["execution_id"].as_str().unwrap_or_default().to_owned()
}

/// How far an execution is.
fn status(served: &Served, token: &str, id: &str) -> String {
    let found = served.get(token, &format!("/api/v1/executions/{id}")).is(200);
    found["status"].as_str().unwrap_or_default().to_owned()
}

fn is_over(status: &str) -> bool {
    !matches!(status, "pending" | "running")
}

fn verdict(wrong: Vec<String>) -> Result<(), String> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
