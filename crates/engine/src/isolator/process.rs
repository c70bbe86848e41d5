//! No isolation: the program runs as a plain child of ours, as free as we are.
//!
//! For development on hosts where nothing else works, and only when the caller named the danger. The record
//! says grade 0 and `backend: process`, so nobody can mistake one for the other.

use super::{Isolator, Place, PlaceSpec};
use crate::EngineError;
use crate::execution::Receipt;
use crate::runtime::plan::Places;
use async_trait::async_trait;
use jail::spec::BoxUsage;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tokio::net::UnixStream;
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

fn broken(what: &str, e: &dyn std::fmt::Display) -> EngineError {
    EngineError::Broken(format!("{what}: {e}"))
}

#[async_trait]
impl Isolator for Process {
    fn kind(&self) -> &'static str {
        "process"
    }

    async fn probe(&self) -> Result<(), EngineError> {
        Ok(())
    }

    async fn create(&self, spec: &PlaceSpec) -> Result<Place, EngineError> {
        let folder = std::env::temp_dir().join(format!("sandboxd-{}", spec.id));
        let (workspace, build) = (folder.join("workspace"), folder.join("build"));
        for dir in [&folder, &workspace, &build] {
            use std::os::unix::fs::DirBuilderExt;
            std::fs::DirBuilder::new().mode(0o700).create(dir).map_err(|e| broken("workspace", &e))?;
        }
        let (ours, theirs) = StdStream::pair().map_err(|e| broken("control stream", &e))?;
        ours.set_nonblocking(true).map_err(|e| broken("control stream", &e))?;
        let argument = serde_json::json!({
            "workspace": workspace, "build": build, "limits": spec.limits.of_box(),
        });
        let child = Command::new(&self.executor)
            .args(["plain", &argument.to_string()])
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .map_err(|e| broken(&self.executor.display().to_string(), &e))?;
        self.running.lock().await.insert(spec.id.clone(), (child, folder));
        Ok(Place {
            stream: UnixStream::from_std(ours).map_err(|e| broken("control stream", &e))?,
            receipt: Receipt::none(),
            places: Places { workspace: workspace.display().to_string(), build: build.display().to_string() },
        })
    }

    async fn usage(&self, _id: &str) -> Result<BoxUsage, EngineError> {
        Ok(BoxUsage::default())
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
        std::fs::remove_dir_all(&folder).map_err(|e| broken("workspace", &e))?;
        Ok(BoxUsage::default())
    }

    async fn list(&self) -> Vec<String> {
        self.running.lock().await.keys().cloned().collect()
    }
}
