//! A real server on a real port, with a real database, and clients that do not behave.
#![cfg(test)]

#[path = "http/bodies.rs"]
mod bodies;
#[path = "http/calling.rs"]
mod calling;
#[path = "http/ending.rs"]
mod ending;
#[path = "http/events.rs"]
mod events;
#[path = "http/frames.rs"]
mod frames;
#[path = "http/keys.rs"]
mod keys;
#[path = "http/patience.rs"]
mod patience;
#[path = "http/shown.rs"]
mod shown;
#[path = "http/tokens.rs"]
mod tokens;
#[path = "http/webhooks.rs"]
mod webhooks;
#[path = "http/world.rs"]
mod world;
