//! A program that waits for what it has to do.
//!
//! It is told by the engine itself. PID 1 has nothing to do with that, and shall not get in its way: the order to follow
//! it lies in a letterbox, which is a pipe nobody watches, until the program has ended or takes longer.

use crate::ground::Ground;
use crate::meters::Reading;
use crate::watch::{program, stage};
use jail::beneath::{PlainPath, Tree};
use protocol::{Errand, Parked};
use rustix::fd::OwnedFd;
use rustix::pipe::{PIPE_BUF, PipeFlags, pipe_with};
use rustix::process::{Pid, WaitStatus};

#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) pid: Option<Pid>,
    /// How it ended, if it did before anybody followed it.
    pub(crate) ended: Option<WaitStatus>,
    /// Its workspace, and what was used before its errand.
    pub(crate) settled: Option<(Tree, Reading)>,
    letterbox: Option<OwnedFd>,
    /// Whether somebody else looks for its end.
    pub(crate) unwatched: bool,
}

impl Waiting {
    /// Starts it, in a workspace that has its main file. Gives that, the build directory, and where letters are thrown in.
    pub(crate) fn park(
        ground: &impl Ground,
        parked: &Parked,
    ) -> Result<(Waiting, [Tree; 2], OwnedFd), String> {
        let workspace = Tree::open(ground.workspace()).map_err(|e| format!("workspace: {e}"))?;
        let build = Tree::open(ground.build()).map_err(|e| format!("build directory: {e}"))?;
        if let Some(source) = &parked.source {
            let path = PlainPath::parse(source).map_err(|e| e.to_string())?;
            workspace.create(&path, 0o644).map_err(|e| format!("file `{source}`: {e}"))?;
        }
        let directory = ground.workspace().display().to_string();
        let stage = stage(&directory, parked.cpu_ms).map_err(|e| e.to_string())?;
        let program = parked.step.as_ref().map(|step| program(step, parked.cpu_ms)).transpose();
        let started = program.and_then(|program| {
            ground.park(program.as_ref().map(|program| (program, parked.keeper)), &stage)
        });
        let pid = started.map_err(|e| e.to_string())?;
        let (letterbox, slot) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|e| format!("letterbox: {e}"))?;
        let waiting = Waiting { pid: Some(pid), letterbox: Some(letterbox), ..Waiting::default() };
        Ok((waiting, [workspace, build], slot))
    }

    /// What is used from here on, its errand uses. Only the first time counts.
    pub(crate) fn settle(&mut self, ground: &impl Ground) {
        if self.settled.is_none()
            && let Ok(workspace) = Tree::open(ground.workspace())
        {
            self.settled = Some((workspace, ground.meters().read()));
        }
    }

    /// The order that lies in the letterbox, if one does.
    pub(crate) fn letter(&mut self) -> Option<Errand> {
        let mut bytes = [0; PIPE_BUF];
        let length = rustix::io::read(self.letterbox.as_ref()?, &mut bytes).ok()?;
        Errand::open(&bytes[..length])
    }
}
