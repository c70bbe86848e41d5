//! What came of it, as programs read it.

use super::candidate::Candidate;
use super::server::Request;
use super::statistics::Summary;
use super::targets::Verdict;
use crate::args::BenchPart;
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) rounds: usize,
    pub(crate) latency: Vec<LatencyRow>,
    pub(crate) load: Vec<LoadRow>,
    pub(crate) memory: Vec<MemoryRow>,
    pub(crate) deadline: Vec<DeadlineRow>,
    pub(crate) server: Vec<ServerRow>,
    /// Who could not take part in what.
    pub(crate) absent: Vec<Absent>,
    pub(crate) targets: Vec<Verdict>,
}

/// Where it was measured, and how busy that was before.
#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) kernel: String,
    pub(crate) processors: usize,
    pub(crate) load: String,
    pub(crate) root: bool,
}

#[derive(Serialize)]
pub(crate) struct LatencyRow {
    pub(crate) program: BenchPart,
    pub(crate) title: &'static str,
    pub(crate) candidate: Candidate,
    pub(crate) by: &'static str,
    /// Of the medians.
    pub(crate) ratio_to_bare: f64,
    #[serde(flatten)]
    pub(crate) times: Summary,
}

#[derive(Serialize)]
pub(crate) struct LoadRow {
    pub(crate) program: BenchPart,
    pub(crate) title: &'static str,
    pub(crate) candidate: Candidate,
    pub(crate) by: &'static str,
    pub(crate) in_flight: usize,
    /// From a full pool to a full pool.
    pub(crate) runs_per_second: f64,
    /// The same number of bare commands in flight being 1.
    pub(crate) times_bare: f64,
    /// Of everything that descends from this process, what replaces used sandboxes included.
    pub(crate) cpu_ms_per_run: f64,
    /// Of the whole machine meanwhile.
    pub(crate) machine_cpu_ms_per_run: f64,
    /// How often a sandbox was ready, where there is a pool.
    pub(crate) hit_share: Option<f64>,
    #[serde(flatten)]
    pub(crate) times: Summary,
}

#[derive(Serialize)]
pub(crate) struct MemoryRow {
    pub(crate) program: BenchPart,
    pub(crate) title: &'static str,
    pub(crate) waiting: usize,
    /// What the machine has less for each, and how far readings of that lie apart.
    pub(crate) bytes_each: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    /// What its memory cgroup is charged, where it has one.
    pub(crate) charged_each: Option<f64>,
    pub(crate) per_gib: Option<f64>,
}

/// Times beyond the time-out, from the call to the record.
#[derive(Serialize)]
pub(crate) struct DeadlineRow {
    pub(crate) program: BenchPart,
    pub(crate) language: &'static str,
    pub(crate) candidate: Candidate,
    pub(crate) by: &'static str,
    #[serde(flatten)]
    pub(crate) times: Summary,
}

/// A request to a server, from the first byte sent to the last one received.
#[derive(Serialize)]
pub(crate) struct ServerRow {
    pub(crate) request: Request,
    pub(crate) title: &'static str,
    /// Records of earlier runs that the server has.
    pub(crate) records: usize,
    /// Of the medians.
    pub(crate) ratio_to_bare: f64,
    pub(crate) ratio_to_empty: f64,
    #[serde(flatten)]
    pub(crate) times: Summary,
}

#[derive(Serialize)]
pub(crate) struct Absent {
    pub(crate) part: &'static str,
    pub(crate) program: BenchPart,
    pub(crate) by: &'static str,
    pub(crate) why: String,
}

impl Results {
    pub(crate) fn new(rounds: usize) -> Result<Results> {
        let line = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned());
        let load = line("/proc/loadavg")?;
        Ok(Results {
            machine: Machine {
                date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
                kernel: line("/proc/sys/kernel/osrelease")?,
                processors: std::thread::available_parallelism()?.get(),
                load: load.split(' ').next().unwrap_or_default().to_owned(),
                root: rustix::process::geteuid().is_root(),
            },
            rounds,
            latency: Vec::new(),
            load: Vec::new(),
            memory: Vec::new(),
            deadline: Vec::new(),
            server: Vec::new(),
            absent: Vec::new(),
            targets: Vec::new(),
        })
    }

    pub(crate) fn latency_of(&self, program: BenchPart, candidate: Candidate) -> Option<&LatencyRow> {
        self.latency.iter().find(|row| row.program == program && row.candidate == candidate)
    }
}
