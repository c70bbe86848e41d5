//! The doors of two founding systems, asked as their old clients asked them: `/workspace/se`, and sandboxes below
//! `/api/v1`, `/api/v2` and `/api`. Each test has a server of its own that makes real sandboxes.
#![cfg(test)]

#[path = "rest/client.rs"]
mod client;
#[path = "founding/documents.rs"]
mod documents;
#[path = "founding/old.rs"]
mod old;
#[path = "founding/sandboxes.rs"]
mod sandboxes;
mod support;
#[path = "founding/tools.rs"]
mod tools;
#[path = "founding/workspace.rs"]
mod workspace;
