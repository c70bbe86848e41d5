//! The doors of sandboxd: REST, MCP and the pages people look at.
//!
//! An empty room for now: the command line talks to the engine directly. What moves in here translates
//! requests into engine calls and engine results into answers; it holds no logic of its own.

pub mod settings;
