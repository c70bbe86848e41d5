//! What many measurements come to.

use serde::Serialize;

/// Times of one candidate, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) samples: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Summary {
    /// `None` when there is nothing to sum up.
    pub(crate) fn of(times: &[f64]) -> Option<Summary> {
        Some(Summary {
            samples: times.len(),
            p50_ms: percentile(times, 0.5)?,
            p99_ms: percentile(times, 0.99)?,
        })
    }
}

/// The smallest of the values that no less than this share of all do not exceed: always one that was measured.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.5), Some(50.0));
        assert_eq!(percentile(&hundred, 0.99), Some(99.0));
        assert_eq!(percentile(&hundred, 1.0), Some(100.0));
        assert_eq!(percentile(&hundred, 0.0), Some(1.0));
    }

    #[test]
    fn few_values_have_percentiles_too() {
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[7.0]), Some(Summary { samples: 1, p50_ms: 7.0, p99_ms: 7.0 }));
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]), Some(Summary { samples: 3, p50_ms: 2.0, p99_ms: 3.0 }));
    }

    #[test]
    fn one_outlier_in_a_hundred_is_not_the_99th_percentile_and_two_are() {
        let mut times = vec![1.0; 100];
        times[17] = 900.0;
        assert_eq!(percentile(&times, 0.99), Some(1.0));
        times[40] = 900.0;
        assert_eq!(percentile(&times, 0.99), Some(900.0));
    }
}
