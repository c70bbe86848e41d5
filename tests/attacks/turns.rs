//! Who may go on at the same time, where both halves of the suite do.

use std::fs::File;
use std::path::{Path, PathBuf};

/// What a case lets the other half do meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Manner {
    /// It does not mind, like most.
    Beside,
    /// It asks how long things take and does little itself: others of its kind do not disturb it.
    Timed,
    /// Nothing.
    Alone,
}

pub(crate) struct Turns {
    folder: PathBuf,
}

/// What a case holds as long as it goes on.
pub(crate) struct Turn {
    _floors: Vec<File>,
}

impl Turns {
    /// All who name the same folder take turns.
    pub(crate) fn at(folder: &Path) -> Turns {
        Turns { folder: folder.into() }
    }

    /// Waits until nobody minds.
    pub(crate) fn take(&self, manner: Manner) -> Result<Turn, String> {
        // Who waits keeps the door shut, so that nobody overtakes for ever.
        let _door = self.locked("door", false)?;
        let floors = match manner {
            Manner::Beside => {
                drop(self.locked("timed", false)?);
                vec![self.locked("beside", true)?]
            }
            Manner::Timed => {
                drop(self.locked("beside", false)?);
                vec![self.locked("timed", true)?]
            }
            Manner::Alone => vec![self.locked("beside", false)?, self.locked("timed", false)?],
        };
        Ok(Turn { _floors: floors })
    }

    fn locked(&self, name: &str, shared: bool) -> Result<File, String> {
        let path = self.folder.join(name);
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = File::create(&path).map_err(failed)?;
        if shared { file.lock_shared() } else { file.lock() }.map_err(failed)?;
        Ok(file)
    }
}
