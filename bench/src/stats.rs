//! Many durations as a few figures.

use std::time::Duration;

use serde::Serialize;

/// Milliseconds. All zero without a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    pub samples: usize,
    /// Those that did not happen in time. They are in no other figure.
    pub never: usize,
    pub median_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Latency {
    /// None stands for one that did not happen.
    pub fn of(samples: &[Option<Duration>]) -> Self {
        let mut seen: Vec<Duration> = samples.iter().flatten().copied().collect();
        seen.sort();
        let at = |share: f64| {
            let rank = (share * seen.len() as f64).ceil() as usize;
            millis(seen.get(rank.max(1) - 1).copied().unwrap_or_default())
        };
        let never = samples.len() - seen.len();
        Latency { samples: samples.len(), never, median_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1.0) }
    }
}

pub fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e5).round() / 100.0
}

pub fn seconds(duration: Duration) -> f64 {
    round(duration.as_secs_f64())
}

/// Three digits after the point.
pub fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_that_were_measured() {
        let samples: Vec<_> = (1..=50).map(|n| Some(Duration::from_millis(n))).chain([None]).collect();
        let latency = Latency::of(&samples);
        assert_eq!((latency.samples, latency.never), (51, 1));
        assert_eq!((latency.median_ms, latency.p99_ms, latency.max_ms), (25.0, 50.0, 50.0));
        assert_eq!(Latency::of(&[]).max_ms, 0.0);
    }
}
