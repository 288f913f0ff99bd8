//! Metrics of one name that differ in their labels: counters and histograms that are counted up where things happen, and the
//! names of gauges, whose values are looked up when somebody asks.
//!
//! Labels stand in the order of the alphabet, as in every text that Go writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::text::Text;

/// So many series of one name are more than anybody can read. What comes beyond is counted together, under `other`.
const MOST_SERIES: usize = 500;
const OTHER: &str = "other";

/// What a metric is called, and what it says.
#[derive(Clone, Copy, Debug)]
pub struct Name<const N: usize> {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: [&'static str; N],
}

/// What is counted up, or measured, by labels.
struct Series<T, const N: usize>(Mutex<BTreeMap<[String; N], T>>);

impl<T: Clone, const N: usize> Series<T, N> {
    const fn new() -> Self {
        Series(Mutex::new(BTreeMap::new()))
    }

    fn get(&self, labels: [&str; N], new: impl FnOnce() -> T) -> T {
        let mut all = locked(&self.0);
        let mut key = labels.map(str::to_owned);
        if all.len() >= MOST_SERIES && !all.contains_key(&key) {
            key = std::array::from_fn(|_| OTHER.to_owned());
        }
        all.entry(key).or_insert_with(new).clone()
    }
}

/// Counters of one name.
pub struct Counters<const N: usize> {
    pub about: Name<N>,
    series: Series<Counter, N>,
}

#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

impl<const N: usize> Counters<N> {
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Counters { about: Name { name, help, labels }, series: Series::new() }
    }

    /// The counter with these labels. From now on it is shown, from zero on.
    pub fn of(&self, labels: [&str; N]) -> Counter {
        self.series.get(labels, Counter::default)
    }

    pub fn count(&self, labels: [&str; N]) {
        self.of(labels).add(1);
    }

    pub fn write(&self, text: &mut Text) {
        let rows = locked(&self.series.0);
        text.family(&self.about, "counter");
        for (labels, counter) in rows.iter() {
            text.sample(&self.about, labels, counter.0.load(Ordering::Relaxed) as f64);
        }
    }
}

/// Histograms of one name.
pub struct Histograms<const N: usize> {
    pub about: Name<N>,
    /// Upper bounds, without the infinite one.
    bounds: &'static [f64],
    series: Series<Histogram, N>,
}

#[derive(Clone)]
pub struct Histogram {
    bounds: &'static [f64],
    measured: Arc<Mutex<Measured>>,
}

#[derive(Default)]
struct Measured {
    /// Of each bucket alone, the infinite one last.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        let measured = Measured { counts: vec![0; bounds.len() + 1], sum: 0.0 };
        Histogram { bounds, measured: Arc::new(Mutex::new(measured)) }
    }

    pub fn measure(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        let mut measured = locked(&self.measured);
        measured.counts[bucket] += 1;
        measured.sum += seconds;
    }
}

impl<const N: usize> Histograms<N> {
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
        bounds: &'static [f64],
    ) -> Self {
        Histograms { about: Name { name, help, labels }, bounds, series: Series::new() }
    }

    pub fn of(&self, labels: [&str; N]) -> Histogram {
        self.series.get(labels, || Histogram::new(self.bounds))
    }

    pub fn write(&self, text: &mut Text) {
        let rows = locked(&self.series.0);
        text.family(&self.about, "histogram");
        for (labels, histogram) in rows.iter() {
            let measured = locked(&histogram.measured);
            text.histogram(&self.about, labels, self.bounds, &measured.counts, measured.sum);
        }
    }
}

/// A poisoned lock still counts.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_shown_from_zero_on_and_too_many_are_counted_together() {
        static FAMILY: Counters<1> = Counters::new("a_total", "Some.", ["who"]);
        FAMILY.of(["nobody"]);
        for number in 0..MOST_SERIES + 5 {
            FAMILY.count([&format!("{number:04}")]);
        }
        FAMILY.count(["0000"]);
        let mut text = Text::default();
        FAMILY.write(&mut text);
        let text = text.into_string();
        assert!(text.starts_with("# HELP a_total Some.\n# TYPE a_total counter\na_total{who=\"0000\"} 2\n"), "{text}");
        assert!(text.contains("a_total{who=\"nobody\"} 0\n") && text.contains("a_total{who=\"other\"} 6\n"), "{text}");
    }

    #[test]
    fn buckets_add_up() {
        static FAMILY: Histograms<1> = Histograms::new("b_seconds", "Some.", ["who"], &[0.5, 1.0]);
        let one = FAMILY.of(["me"]);
        [100, 500, 700, 3000].iter().for_each(|millis| one.measure(Duration::from_millis(*millis)));
        let mut text = Text::default();
        FAMILY.write(&mut text);
        let expected = "# HELP b_seconds Some.\n# TYPE b_seconds histogram\n\
            b_seconds_bucket{who=\"me\",le=\"0.5\"} 2\nb_seconds_bucket{who=\"me\",le=\"1\"} 3\n\
            b_seconds_bucket{who=\"me\",le=\"+Inf\"} 4\nb_seconds_sum{who=\"me\"} 4.3\nb_seconds_count{who=\"me\"} 4\n";
        assert_eq!(text.into_string(), expected);
    }
}
