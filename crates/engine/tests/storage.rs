//! Storage, from outside, on every database for real: SQLite always, MariaDB and PostgreSQL where
//! `scripts/with-databases` started them. In CI one that is missing is a failure.
#![cfg(test)]

#[path = "storage/away.rs"]
mod away;
#[path = "storage/events.rs"]
mod events;
#[path = "storage/executions.rs"]
mod executions;
#[path = "storage/killed.rs"]
mod killed;
#[path = "storage/objects.rs"]
mod objects;
#[path = "storage/opening.rs"]
mod opening;
#[path = "storage/racing.rs"]
mod racing;
#[path = "storage/retention.rs"]
mod retention;
#[path = "storage/rows.rs"]
mod rows;
#[path = "storage/sessions.rs"]
mod sessions;
#[path = "storage/world.rs"]
mod world;
