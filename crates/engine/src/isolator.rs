//! Isolators: each makes a walled place with our executor in it and hands out the stream to it.
//!
//! An isolator knows no language, no session and no door. What it made says by its receipt how strong the
//! walls are; one that cannot make them as strong as they should be refuses.

pub mod native;
pub mod process;

use crate::execution::Receipt;
use crate::limits::Limits;
use crate::runtime::plan::Places;
use crate::{EngineError, Layer, Network, Profile};
use async_trait::async_trait;
use jail::spec::{BoxUsage, HostDir};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use tokio::net::UnixStream;

/// What a place shall be like.
#[derive(Clone, Debug)]
pub struct PlaceSpec {
    /// Its name, unique on this host.
    pub id: String,
    /// Its bounds.
    pub limits: Limits,
    /// What it may reach.
    pub network: Network,
    /// System call profile of user code.
    pub profile: Profile,
    /// Directories of the host it sees beside the ones every place sees.
    pub host_dirs: Vec<HostDir>,
    /// Layers whose absence the operator accepts.
    pub allow_weaker: Vec<Layer>,
    /// The interpreter whose copies wait in it.
    pub zygote: Option<Zygote>,
    /// Whether somebody in it keeps the memory of the program that waits.
    pub keeper: bool,
    /// Its seats, where several jobs shall run at once; none where one does.
    pub seats: u32,
}

/// An interpreter that is loaded once, and whose copies wait in places for programs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Zygote {
    /// Whose programs its copies run, if not everybody's.
    pub owner: Option<String>,
    /// The interpreter, on the host.
    pub program: PathBuf,
    /// The main file of a program that comes without a name.
    pub source: String,
    /// Its environment, which its copies have too.
    pub env: Vec<(String, String)>,
    /// Variables that are set while it loads modules.
    pub load_env: BTreeMap<String, String>,
    /// What it has loaded, one after the other. It is a copy of the one that has loaded all but the last.
    pub loads: Vec<Load>,
}

impl Zygote {
    /// The one it is a copy of.
    pub(crate) fn parent(&self) -> Option<Zygote> {
        let (_, before) = self.loads.split_last().filter(|(_, before)| !before.is_empty())?;
        Some(Zygote { loads: before.to_vec(), ..self.clone() })
    }

    /// Whether it is that one, or a copy of it, or a copy of a copy.
    pub(crate) fn comes_from(&self, other: &Zygote) -> bool {
        let loads = self.loads.get(..other.loads.len()).unwrap_or_default().to_vec();
        Zygote { loads, ..self.clone() } == *other
    }
}

/// Modules that are loaded together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Load {
    /// Which.
    pub preload: Vec<String>,
    /// What is done once with them, so that a program does not do it for the first time.
    pub warm_up: Vec<String>,
}

impl PlaceSpec {
    /// What most runs ask for.
    pub(crate) fn usual() -> PlaceSpec {
        PlaceSpec {
            id: String::new(),
            limits: Limits::usual(),
            network: Network::None,
            profile: Profile::Default,
            host_dirs: Vec::new(),
            allow_weaker: Vec::new(),
            zygote: None,
            keeper: false,
            seats: 0,
        }
    }
}

/// A place that stands.
#[derive(Debug)]
pub struct Place {
    /// The stream to its executor.
    pub stream: UnixStream,
    /// The streams to its seats.
    pub seats: Vec<UnixStream>,
    /// How much of the opening the stream has taken.
    pub told: usize,
    /// What protects the host from it.
    pub receipt: Receipt,
}

/// The executor cannot be started, or is none.
fn no_executor(path: &std::path::Path, why: &dyn std::fmt::Display) -> EngineError {
    EngineError::Unavailable {
        what: format!("the executor `{}` does not work: {why}", path.display()),
        hint: Some("`make build` leaves it beside `sandboxd`; `SANDBOXD_EXECUTOR` names another".into()),
    }
}

/// A stream to an executor that does not exist yet: our end, with as much of the opening in it as it takes,
/// and its own.
fn open_stream(opening: &[u8]) -> Result<(UnixStream, std::os::unix::net::UnixStream, usize), EngineError> {
    let failed = |e: std::io::Error| EngineError::Broken(format!("control stream: {e}"));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    let told = std::io::Write::write(&mut &ours, opening).unwrap_or(0);
    Ok((UnixStream::from_std(ours).map_err(failed)?, theirs, told))
}

/// Makes and ends places.
#[async_trait]
pub trait Isolator: Send + Sync {
    /// Its name.
    fn kind(&self) -> &'static str;
    /// Whether it can work on this host, or why not.
    async fn probe(&self) -> Result<(), EngineError>;
    /// Where things will be in the place of that name.
    fn places(&self, id: &str) -> Places;
    /// Makes a place. The opening is what its executor shall hear first: it lies in the stream before the
    /// executor exists, so that it need not wait for it. Beside it come the streams of a program that shall wait
    /// in the place, if one shall.
    async fn create(
        &self,
        spec: &PlaceSpec,
        opening: &[u8],
        program: Option<[OwnedFd; 3]>,
    ) -> Result<Place, EngineError>;
    /// What a place has used so far.
    async fn usage(&self, id: &str) -> Result<BoxUsage, EngineError>;
    /// Lets a place work without a bound on its CPU rate, so that its executor can end what is over its time.
    async fn relieve(&self, id: &str) -> Result<(), EngineError>;
    /// Ends a place and everything in it. Says what it had used.
    async fn destroy(&self, id: &str) -> Result<BoxUsage, EngineError>;
    /// Names of the places that stand.
    async fn list(&self) -> Vec<String>;
}
