//! The numbers of a server that the live view shows, out of the text that is meant for Prometheus.

use serde::Serialize;
use std::collections::BTreeMap;

/// What is read of it.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Numbers {
    /// How long the server has been up.
    pub(super) uptime_seconds: f64,
    /// Connections that are open.
    pub(super) connections: f64,
    /// Requests that were answered.
    pub(super) requests: f64,
    /// Sandboxes that wait, by language and, where they are for one, template.
    pub(super) pool: BTreeMap<String, Shelf>,
}

/// Sandboxes of one kind.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Shelf {
    pub(super) waiting: f64,
    pub(super) wanted: f64,
    /// How often one was there.
    pub(super) hits: f64,
    /// How often none was.
    pub(super) misses: f64,
}

impl Numbers {
    pub(super) fn read(text: &str) -> Numbers {
        let mut numbers = Numbers::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            match name {
                "process_uptime_seconds" => numbers.uptime_seconds = value,
                "active_connections" => numbers.connections += value,
                "http_requests_total" => numbers.requests += value,
                _ => numbers.of_pool(name, labels, value),
            }
        }
        numbers
    }

    fn of_pool(&mut self, name: &str, labels: &str, value: f64) {
        let Some(kind) = name.strip_prefix("sandbox_warm_pool_") else { return };
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split('"').next().filter(|value| !value.is_empty())
        };
        let language = label("language").unwrap_or("any").to_owned();
        let of = label("template").map_or(String::new(), |template| format!(" of {template}"));
        let shelf = self.pool.entry(language + &of).or_default();
        match kind {
            "size" => shelf.waiting += value,
            "target" => shelf.wanted += value,
            "hits" => shelf.hits += value,
            "misses" => shelf.misses += value,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_one_language_are_summed_and_the_rest_is_passed_over() {
        let numbers = Numbers::read(
            "# HELP x y\nprocess_uptime_seconds 12.5\nactive_connections{type=\"http\"} 2\n\
             http_requests_total{method=\"GET\",endpoint=\"/a b\",status_code=\"200\"} 3\n\
             http_requests_total{method=\"POST\",endpoint=\"/\",status_code=\"200\"} 4\n\
             sandbox_warm_pool_size{language=\"python\",set=\"1\"} 2\n\
             sandbox_warm_pool_size{language=\"python\",set=\"2\",template=\"\"} 1\n\
             sandbox_warm_pool_size{language=\"python\",set=\"\",template=\"data\"} 4\n\
             sandbox_warm_pool_misses{language=\"any\",set=\"\"} 5\nother 1\n# EOF\n",
        );
        assert_eq!((numbers.uptime_seconds, numbers.connections, numbers.requests), (12.5, 2.0, 7.0));
        assert_eq!((numbers.pool["python"].waiting, numbers.pool["any"].misses), (3.0, 5.0));
        assert_eq!(numbers.pool["python of data"].waiting, 4.0);
        assert_eq!(numbers.pool.len(), 3);
    }
}
