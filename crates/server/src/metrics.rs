//! Numbers for whoever watches: requests, connections, the pool, and what this build is.

use engine::{ShelfReport, Verdict};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    endpoint: String,
    status_code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Asked {
    method: &'static str,
    endpoint: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    r#type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failed {
    r#type: &'static str,
    severity: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Shelf {
    language: String,
    set: String,
    template: String,
}

type Durations = Family<Asked, Histogram, fn() -> Histogram>;

/// All numbers.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    durations: Durations,
    connections: Family<Kind, Gauge>,
    errors: Family<Failed, Counter>,
    served: Counter,
    refused_connections: Counter,
    uptime: Gauge<f64, AtomicU64>,
    pool: PoolNumbers,
    /// What the JSON form needs in sum.
    requests_total: AtomicU64,
    errors_total: AtomicU64,
    micros_total: AtomicU64,
}

#[derive(Default)]
struct PoolNumbers {
    size: Family<Shelf, Gauge>,
    target: Family<Shelf, Gauge>,
    hits: Family<Shelf, Gauge>,
    misses: Family<Shelf, Gauge>,
    dead: Family<Shelf, Gauge>,
    refill: Family<Shelf, Gauge<f64, AtomicU64>>,
}

/// The sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) micros: u64,
    pub(crate) connections: i64,
    pub(crate) bytes: u64,
}

impl Metrics {
    pub(crate) fn new(verdict: &Verdict) -> Metrics {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Metrics {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            connections: Family::default(),
            errors: Family::default(),
            served: Counter::default(),
            refused_connections: Counter::default(),
            uptime: Gauge::default(),
            pool: PoolNumbers::default(),
            requests_total: AtomicU64::new(0),
            errors_total: AtomicU64::new(0),
            micros_total: AtomicU64::new(0),
        };
        let mut registry = Registry::default();
        let r = &mut registry;
        r.register("http_requests", "Requests that were answered", metrics.requests.clone());
        r.register(
            "http_request_duration_seconds",
            "Until the head of the answer",
            metrics.durations.clone(),
        );
        r.register("active_connections", "Connections that are open", metrics.connections.clone());
        r.register("application_errors", "Answers with a status of 500 and above", metrics.errors.clone());
        r.register("http_response_bytes", "Bytes of bodies that were sent", metrics.served.clone());
        let refused = metrics.refused_connections.clone();
        r.register("http_connections_refused", "Connections that were turned away", refused);
        r.register("process_uptime_seconds", "How long the server has been up", metrics.uptime.clone());
        metrics.pool.register(r);
        let grade = Gauge::<i64>::default();
        grade.set(verdict.grade.map_or(-1, i64::from));
        r.register("sandbox_isolation_grade", "1: every layer, 0: weaker, -1: none can be made", grade);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("arch", std::env::consts::ARCH)]);
        r.register("sandboxd_build", "What this build is", build);
        Metrics { registry, ..metrics }
    }

    /// A request was answered. The endpoint is a pattern, so that there are not as many as there are ids.
    pub(crate) fn answered(&self, method: &str, endpoint: &str, status: u16, took: Duration) {
        let method = known(method);
        let asked = Asked { method, endpoint: endpoint.to_owned() };
        self.durations.get_or_create(&asked).observe(took.as_secs_f64());
        let answered = Answered { method, endpoint: asked.endpoint, status_code: status };
        self.requests.get_or_create(&answered).inc();
        self.requests_total.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros_total.fetch_add(micros, Ordering::Relaxed);
        if status >= 400 {
            self.errors_total.fetch_add(1, Ordering::Relaxed);
        }
        if status >= 500 {
            self.errors.get_or_create(&Failed { r#type: "http", severity: "error" }).inc();
        }
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.served.inc_by(bytes);
    }

    pub(crate) fn connected(&self) {
        self.connections.get_or_create(&Kind { r#type: "http" }).inc();
    }

    pub(crate) fn disconnected(&self) {
        self.connections.get_or_create(&Kind { r#type: "http" }).dec();
    }

    pub(crate) fn turned_away(&self) {
        self.refused_connections.inc();
    }

    pub(crate) fn sums(&self) -> Sums {
        Sums {
            requests: self.requests_total.load(Ordering::Relaxed),
            errors: self.errors_total.load(Ordering::Relaxed),
            micros: self.micros_total.load(Ordering::Relaxed),
            connections: self.connections.get_or_create(&Kind { r#type: "http" }).get(),
            bytes: self.served.get(),
        }
    }

    /// As text, with the pool as it is now.
    pub(crate) fn text(&self, pool: &[ShelfReport], uptime: Duration) -> Result<String, std::fmt::Error> {
        self.uptime.set(uptime.as_secs_f64());
        self.pool.set(pool);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl PoolNumbers {
    fn register(&self, registry: &mut Registry) {
        registry.register("sandbox_warm_pool_size", "Sandboxes that wait", self.size.clone());
        registry.register("sandbox_warm_pool_target", "Sandboxes that should wait", self.target.clone());
        registry.register("sandbox_warm_pool_hits", "How often one was there", self.hits.clone());
        registry.register("sandbox_warm_pool_misses", "How often none was there", self.misses.clone());
        registry.register("sandbox_warm_pool_dead", "How often one had died", self.dead.clone());
        registry.register(
            "sandbox_warm_pool_refill_seconds",
            "How long making one takes",
            self.refill.clone(),
        );
    }

    fn set(&self, pool: &[ShelfReport]) {
        self.size.clear();
        self.target.clear();
        self.hits.clear();
        self.misses.clear();
        self.dead.clear();
        self.refill.clear();
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for shelf in pool {
            // Several shelves may differ only in what has no label.
            let label = Shelf {
                language: shelf.language.clone().unwrap_or_else(|| "any".to_owned()),
                set: shelf.set.map_or_else(String::new, |set| set.to_string()),
                template: shelf.template.clone().unwrap_or_default(),
            };
            self.size.get_or_create(&label).inc_by(number(shelf.depth as u64));
            self.target.get_or_create(&label).inc_by(number(shelf.target as u64));
            self.hits.get_or_create(&label).inc_by(number(shelf.hits));
            self.misses.get_or_create(&label).inc_by(number(shelf.misses));
            self.dead.get_or_create(&label).inc_by(number(shelf.dead));
            self.refill.get_or_create(&label).set(shelf.refill_ms / 1000.0);
        }
    }
}

/// Methods are whatever a client writes; labels are not.
fn known(method: &str) -> &'static str {
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}
