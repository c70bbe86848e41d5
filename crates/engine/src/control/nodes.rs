//! Nodes: hosts that make sandboxes, how they are doing, and which of them is given the next session.

use super::error::ControlError;
use super::{ControlPlane, locked, now};
use crate::storage::{Json, Node, NodeStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A node that was not heard of for so long, in milliseconds, is given nothing.
const SILENT: i64 = 30_000;
/// How often this node says how it is doing, in milliseconds.
const BEAT: i64 = 10_000;
/// Nodes of an agent's newest sessions that are remembered.
const AGENT_NODES: usize = 5;

/// What a node is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// What makes its sandboxes.
    pub kind: String,
    /// Its cores.
    pub cores: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Sessions it can have.
    pub max_sessions: usize,
}

/// How a node is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// How much of its cores is in use, from 0 to 1.
    pub cpu: f64,
    /// How much of its memory is in use, from 0 to 1.
    pub memory: f64,
    /// Its sessions.
    pub sessions: usize,
    /// Its programs that run.
    pub running: usize,
    /// Its programs that wait.
    pub queued: usize,
    /// Languages whose interpreters wait there.
    pub warm: Vec<String>,
    /// Its sessions by template. What a template needs is at hand where it has any.
    pub templates: BTreeMap<String, usize>,
}

/// A node, as it was last heard of.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub id: String,
    /// Whether it is given anything.
    pub status: NodeStatus,
    /// What it is.
    pub spec: NodeSpec,
    /// How it is doing.
    pub load: NodeLoad,
    /// When it was last heard of, in milliseconds since 1970.
    pub heartbeat_at: i64,
}

/// What is to be placed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement<'a> {
    pub(crate) template: &'a str,
    pub(crate) languages: &'a [String],
    /// Whether it is to stay.
    pub(crate) persistent: bool,
    /// Where its agent's newest sessions were.
    pub(crate) agent_nodes: &'a [String],
}

impl NodeView {
    /// Whether it can be given anything.
    fn takes_more(&self, at: i64) -> bool {
        self.status == NodeStatus::Online
            && at - self.heartbeat_at <= SILENT
            && self.load.sessions < self.spec.max_sessions
    }

    fn free(&self) -> [f64; 3] {
        let sessions = self.load.sessions as f64 / self.spec.max_sessions.max(1) as f64;
        [self.load.cpu, self.load.memory, sessions].map(|used| (1.0 - used).clamp(0.0, 1.0))
    }

    /// How good a place it is, from 0 to 1.
    pub(crate) fn score(&self, wanted: &Placement<'_>) -> f64 {
        let [cpu, memory, sessions] = self.free();
        if !wanted.persistent {
            return 0.4 * cpu + 0.4 * memory + 0.2 * sessions;
        }
        let alike = self.load.templates.get(wanted.template).copied().unwrap_or(0);
        let at_hand = if alike > 0 { 0.2 } else { 0.0 };
        let known = if self.knows_agent(wanted) { 0.15 } else { 0.0 };
        0.24 * cpu + 0.24 * memory + 0.12 * sessions + at_hand + known + (0.025 * alike as f64).min(0.05)
    }

    fn knows_agent(&self, wanted: &Placement<'_>) -> bool {
        wanted.agent_nodes.iter().take(AGENT_NODES).any(|node| *node == self.id)
    }

    /// What comes before any score: it knows the agent, an interpreter waits there, what the template needs is at hand.
    fn preference(&self, wanted: &Placement<'_>) -> (bool, bool, bool) {
        let warm = wanted.languages.iter().any(|language| self.load.warm.contains(language));
        let at_hand = self.load.templates.contains_key(wanted.template);
        (wanted.persistent && self.knows_agent(wanted), warm, at_hand)
    }
}

/// The best of them; none when none takes more. Of equals it is the first by name, so that everybody chooses alike.
pub(crate) fn choose<'n>(nodes: &'n [NodeView], wanted: &Placement<'_>, at: i64) -> Option<&'n NodeView> {
    let open = nodes.iter().filter(|node| node.takes_more(at));
    open.max_by(|a, b| {
        let (first, second) = (a.preference(wanted), b.preference(wanted));
        first
            .cmp(&second)
            .then_with(|| a.score(wanted).total_cmp(&b.score(wanted)))
            .then_with(|| b.id.cmp(&a.id))
    })
}

impl ControlPlane {
    /// Every node there is, this one as it is at the moment.
    pub async fn nodes(&self) -> Result<Vec<NodeView>, ControlError> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = self.store.nodes(after.as_ref(), 100).await?;
            for node in page.items.iter().filter(|node| node.id != self.settings.node) {
                let mut status = node.status;
                if status == NodeStatus::Online && now() - node.heartbeat_at > SILENT {
                    status = NodeStatus::Offline;
                }
                all.push(NodeView {
                    id: node.id.clone(),
                    status,
                    spec: node.spec.read()?,
                    load: node.load.read()?,
                    heartbeat_at: node.heartbeat_at,
                });
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        all.push(self.this_node());
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }

    /// This node, as it is at the moment.
    pub fn this_node(&self) -> NodeView {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (total, free) = memory();
        let load = self.load();
        let mut templates = BTreeMap::new();
        for session in locked(&self.sessions).live.values() {
            *templates.entry(session.row().template).or_default() += 1;
        }
        let warm = self.engine.pool().into_iter().filter(|shelf| shelf.depth > 0);
        NodeView {
            id: self.settings.node.clone(),
            status: if self.is_ending() { NodeStatus::Draining } else { NodeStatus::Online },
            spec: NodeSpec {
                kind: "native".into(),
                cores: cores as u32,
                memory_bytes: total,
                max_sessions: self.settings.max_sessions,
            },
            load: NodeLoad {
                cpu: (busy_cores() / cores as f64).min(1.0),
                memory: if total == 0 { 0.0 } else { 1.0 - free as f64 / total as f64 },
                sessions: load.sessions,
                running: load.running,
                queued: load.queued,
                warm: warm.filter_map(|shelf| shelf.language).collect(),
                templates,
            },
            heartbeat_at: now(),
        }
    }

    /// Which node a new session is given. Only this one can be reached so far.
    pub(super) fn place(&self, wanted: &Placement<'_>) -> Result<String, ControlError> {
        let nodes = [self.this_node()];
        match choose(&nodes, wanted, now()) {
            Some(node) => Ok(node.id.clone()),
            None => {
                let why = format!("there are {} sessions already", nodes[0].load.sessions);
                Err(ControlError::Busy { why, retry_after: std::time::Duration::from_secs(10) })
            }
        }
    }

    /// Says how this node is doing, if that was not said lately.
    pub(super) async fn beat(&self, last: &mut i64) {
        let at = now();
        if at - *last < BEAT {
            return;
        }
        // Whoever is not heard of now is heard of the next time.
        if self.tell_of(&self.this_node()).await.is_ok() {
            *last = at;
        }
    }

    pub(super) async fn tell_of(&self, node: &NodeView) -> Result<(), ControlError> {
        let row = Node {
            id: node.id.clone(),
            status: node.status,
            spec: Json::of(&node.spec)?,
            load: Json::of(&node.load)?,
            heartbeat_at: node.heartbeat_at,
            created_at: node.heartbeat_at,
        };
        Ok(self.store.put_node(&row).await?)
    }
}

/// Memory of this host, and how much of it can be had.
fn memory() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    };
    (bytes("MemTotal:").unwrap_or(0), bytes("MemAvailable:").unwrap_or(0))
}

/// How many cores were wanted lately.
fn busy_cores() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(id: &str, cpu: f64, memory: f64, sessions: usize) -> NodeView {
        NodeView {
            id: id.into(),
            status: NodeStatus::Online,
            spec: NodeSpec { kind: "native".into(), cores: 4, memory_bytes: 8 << 30, max_sessions: 10 },
            load: NodeLoad { cpu, memory, sessions, ..NodeLoad::default() },
            heartbeat_at: 1000,
        }
    }

    fn chosen(nodes: &[NodeView], wanted: &Placement<'_>) -> Option<String> {
        choose(nodes, wanted, 1000).map(|node| node.id.clone())
    }

    #[test]
    fn scores_are_those_of_the_founding_platform() {
        let mut one = node("a", 0.5, 0.25, 5);
        let brief = Placement { template: "t", ..Placement::default() };
        assert!((one.score(&brief) - (0.4 * 0.5 + 0.4 * 0.75 + 0.2 * 0.5)).abs() < 1e-9);
        let agents = ["a".to_owned()];
        let lasting = Placement { persistent: true, agent_nodes: &agents, ..brief.clone() };
        let base = 0.24 * 0.5 + 0.24 * 0.75 + 0.12 * 0.5 + 0.15;
        assert!((one.score(&lasting) - base).abs() < 1e-9);
        one.load.templates.insert("t".into(), 1);
        assert!((one.score(&lasting) - (base + 0.2 + 0.025)).abs() < 1e-9);
        one.load.templates.insert("t".into(), 9);
        assert!((one.score(&lasting) - (base + 0.2 + 0.05)).abs() < 1e-9);
    }

    #[test]
    fn affinity_comes_first_then_warmth_then_what_is_at_hand_then_room() {
        let languages = ["python".to_owned()];
        let agents = ["d".to_owned()];
        let mut wanted =
            Placement { template: "t", languages: &languages, persistent: true, agent_nodes: &agents };
        let (roomy, mut cached, mut warm, known) =
            (node("a", 0.0, 0.0, 0), node("b", 0.9, 0.9, 8), node("c", 0.9, 0.9, 8), node("d", 0.9, 0.9, 9));
        cached.load.templates.insert("t".into(), 1);
        warm.load.warm = vec!["python".into()];
        let mut nodes = vec![roomy, cached, warm, known];
        for expected in ["d", "c", "b", "a"] {
            assert_eq!(chosen(&nodes, &wanted).as_deref(), Some(expected));
            nodes.retain(|node| node.id != expected);
        }
        assert_eq!(chosen(&nodes, &wanted), None);
        wanted.persistent = false;
        let two = [node("a", 0.0, 0.0, 0), node("d", 0.9, 0.9, 9)];
        assert_eq!(chosen(&two, &wanted).as_deref(), Some("a"), "who stays for one run has no home");
    }

    #[test]
    fn who_is_full_silent_or_draining_gets_nothing() {
        let wanted = Placement::default();
        let mut silent = node("b", 0.0, 0.0, 0);
        silent.heartbeat_at = 1000 - SILENT - 1;
        let mut draining = node("c", 0.0, 0.0, 0);
        draining.status = NodeStatus::Draining;
        let mut nodes = vec![node("a", 0.0, 0.0, 10), silent, draining];
        assert_eq!(chosen(&nodes, &wanted), None);
        nodes.push(node("d", 1.0, 1.0, 9));
        assert_eq!(chosen(&nodes, &wanted).as_deref(), Some("d"));
    }

    proptest! {
        #[test]
        fn a_score_is_from_0_to_1_and_less_load_is_never_worse(
            cpu in -1.0..2.0f64, memory in -1.0..2.0f64, sessions in 0usize..20, persistent: bool
        ) {
            let wanted = Placement { persistent, ..Placement::default() };
            let score = node("a", cpu, memory, sessions).score(&wanted);
            prop_assert!((0.0..=1.0).contains(&score));
            prop_assert!(node("a", cpu - 0.1, memory, sessions).score(&wanted) >= score);
            prop_assert!(node("a", cpu, memory - 0.1, sessions).score(&wanted) >= score);
        }
    }
}
