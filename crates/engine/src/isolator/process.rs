//! No isolation: the program runs as a plain child of ours, as free as we are.
//!
//! For development on hosts where nothing else works, and only when the caller named the danger. The record
//! says grade 0 and `backend: process`, so nobody can mistake one for the other.

use super::{Isolator, Place, PlaceSpec, open_stream};
use crate::EngineError;
use crate::execution::Receipt;
use crate::runtime::plan::Places;
use async_trait::async_trait;
use jail::spec::BoxUsage;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tokio::sync::Mutex;

/// The isolator that does not isolate.
#[derive(Debug)]
pub struct Process {
    executor: PathBuf,
    running: Mutex<HashMap<String, (Child, PathBuf)>>,
}

impl Process {
    /// An isolator that starts this executor.
    pub fn new(executor: PathBuf) -> Process {
        Process { executor, running: Mutex::default() }
    }
}

impl Process {
    /// What to say of an executor that started and said nothing.
    pub(crate) fn unusable(&self) -> EngineError {
        super::no_executor(&self.executor, &"it ended without a word")
    }
}

fn broken(what: &str, e: &dyn std::fmt::Display) -> EngineError {
    EngineError::Broken(format!("{what}: {e}"))
}

fn folder(id: &str) -> PathBuf {
    std::env::temp_dir().join(format!("sandboxd-{id}"))
}

#[async_trait]
impl Isolator for Process {
    fn kind(&self) -> &'static str {
        "process"
    }

    async fn probe(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn places(&self, id: &str) -> Places {
        let folder = folder(id);
        let text = |name: &str| folder.join(name).display().to_string();
        Places { workspace: text("workspace"), build: text("build"), isolated: false }
    }

    async fn create(
        &self,
        spec: &PlaceSpec,
        opening: &[u8],
        program: Option<[OwnedFd; 3]>,
    ) -> Result<Place, EngineError> {
        if program.is_some() {
            return Err(EngineError::Broken("nothing waits without isolation".into()));
        }
        let folder = folder(&spec.id);
        let (workspace, build) = (folder.join("workspace"), folder.join("build"));
        for dir in [&folder, &workspace, &build] {
            use std::os::unix::fs::DirBuilderExt;
            std::fs::DirBuilder::new().mode(0o700).create(dir).map_err(|e| broken("workspace", &e))?;
        }
        let (stream, theirs, told) = open_stream(opening)?;
        let argument = serde_json::json!({
            "workspace": workspace, "build": build, "limits": spec.limits.of_box(),
        });
        let child = Command::new(&self.executor)
            .args(["plain", &argument.to_string()])
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .map_err(|e| {
                let _ = std::fs::remove_dir_all(&folder);
                super::no_executor(&self.executor, &e)
            })?;
        self.running.lock().await.insert(spec.id.clone(), (child, folder));
        Ok(Place { stream, seats: Vec::new(), told, receipt: Receipt::none() })
    }

    async fn usage(&self, _id: &str) -> Result<BoxUsage, EngineError> {
        Ok(BoxUsage::default())
    }

    async fn relieve(&self, _id: &str) -> Result<(), EngineError> {
        Ok(())
    }

    async fn destroy(&self, id: &str) -> Result<BoxUsage, EngineError> {
        let Some((mut child, folder)) = self.running.lock().await.remove(id) else {
            return Err(EngineError::Broken(format!("no place is named `{id}`")));
        };
        // The caller has closed the stream, upon which the executor ends every process of the job, and then
        // itself. Killing it first would leave its children to nobody.
        for _ in 0..200 {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let _ = child.kill();
        let _ = child.wait();
        // The executor removes it as well, should we not live to do so.
        match std::fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(broken("workspace", &e)),
            _ => Ok(BoxUsage::default()),
        }
    }

    async fn list(&self) -> Vec<String> {
        self.running.lock().await.keys().cloned().collect()
    }
}
