//! The few runs that data cannot express: a drive is a function that gets a stage, does what it has to, and says
//! what was wrong. Each section has a file; a new drive is a function there and a line in its `DRIVES`.

mod controls;
mod filesystem;
mod host;
mod information;
mod kernel;
mod network;
mod processes;
mod resources;
mod results;
mod server;
mod streams;

use crate::stage::Stage;

/// `Err` says what was expected and what was seen; a panic does as well.
pub(crate) type Drive = fn(&Stage) -> Result<(), String>;

const SECTIONS: [&[(&str, Drive)]; 11] = [
    controls::DRIVES,
    filesystem::DRIVES,
    host::DRIVES,
    information::DRIVES,
    kernel::DRIVES,
    network::DRIVES,
    processes::DRIVES,
    resources::DRIVES,
    results::DRIVES,
    server::DRIVES,
    streams::DRIVES,
];

pub(crate) fn find(name: &str) -> Option<Drive> {
    SECTIONS
        .iter()
        .flat_map(|drives| drives.iter())
        .find(|(known, _)| *known == name)
        .map(|(_, drive)| *drive)
}
