//! The words the engine and the spawner exchange over a local socket: `[length u32][JSON]` each, one answer
//! for each order, the control stream of a new box travelling beside its order as a descriptor.

use jail::JailError;
use jail::spec::{BoxUsage, JailSpec, Layers};
use serde::{Deserialize, Serialize};

/// Longest message.
pub const LONGEST: usize = 256 << 10;

/// A message as bytes, its length first.
pub fn pack(message: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// The message at the beginning of `bytes`, once all of it has arrived, and how many bytes it took.
pub fn unpack<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<Option<(T, usize)>, String> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(format!("a message of {length} bytes is out of bounds"));
    }
    let Some((message, _)) = rest.split_at_checked(length) else { return Ok(None) };
    serde_json::from_slice(message).map(|message| Some((message, 4 + length))).map_err(|e| e.to_string())
}

/// From the engine to the spawner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Order {
    /// Make a box; its control stream comes along as a descriptor, and so do the three streams of a program that
    /// shall wait in it, if one shall.
    Make {
        /// What it shall be.
        spec: Box<JailSpec>,
    },
    /// Say what a box has used.
    Measure {
        /// Which.
        id: String,
    },
    /// Lift the bound on a box's CPU rate.
    Relieve {
        /// Which.
        id: String,
    },
    /// End a box and free what it held.
    Destroy {
        /// Which.
        id: String,
    },
    /// Where this spawner is an interpreter: have a copy of it load more, and be a spawner of its own from then on. The
    /// socket by which it gets its orders comes along as a descriptor.
    Branch {
        /// What it shall load, in words that only interpreters understand.
        load: String,
    },
}

/// From the spawner to the engine, one for each order, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// The box stands.
    Made {
        /// What protects it.
        layers: Layers,
    },
    /// What a box has used.
    Measured {
        /// By the kernel's count.
        usage: BoxUsage,
    },
    /// Its CPU rate is not bounded any more.
    Relieved,
    /// The box is killed; the spawner takes it down and frees what it held.
    Destroyed {
        /// What it had used in the end.
        usage: BoxUsage,
    },
    /// The copy is there, and about to load.
    Branched,
    /// The order could not be carried out.
    Failed {
        /// Which rung broke.
        error: JailError,
    },
    /// No box has that name.
    Unknown,
}
