//! A chart that is replaced while the operator runs.
//!
//! The origin is polled, because polling survives whatever a change is made with: an editor, rsync, a ConfigMap's swap of
//! links. A change is judged only when two polls in a row saw the same files, so that nobody works with half a copy. Then:
//!
//! - the same contents: nothing happened;
//! - a chart that cannot be loaded, or that helm cannot parse: [`Change::Broken`], told once, and the last good one stays;
//! - anything else: [`Change::New`]. That includes a chart that refuses its default values, because the specs may set them.
//!
//! Nothing is rendered or applied here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::Mutex;

use super::{Chart, ChartError, Fingerprint};
use crate::discovery::Capabilities;
use crate::render::{Helm, RenderError, Request};
use crate::values::{Overrides, Values};

/// Two polls and a render take less than the five seconds in which a change should be seen.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// What became of a chart.
#[derive(Clone, Debug)]
pub enum Change {
    /// Another chart is in use.
    New(Arc<Chart>),
    /// What is there cannot be used; the last good chart stays in use.
    Broken(String),
    /// After [`Change::Broken`]: the chart that is in use is there again.
    Mended,
}

/// The chart of a watch: the one in use, and how to look for another.
pub struct Live {
    origin: PathBuf,
    helm: Helm,
    current: RwLock<Arc<Chart>>,
    seen: Mutex<Seen>,
}

struct Seen {
    /// How the origin looked when it was last judged.
    judged: Fingerprint,
    /// How it looked at the last poll, if different.
    moving: Option<Fingerprint>,
    broken: Option<String>,
    /// Why it could not be judged, as it was told.
    undecided: Option<String>,
}

enum Verdict {
    Same,
    New(Arc<Chart>),
    Broken(String),
    /// Not judged: look again.
    Undecided(String),
    /// Changed while it was copied.
    Moving(Fingerprint),
}

impl Live {
    pub fn new(chart: Chart, helm: Helm) -> Self {
        let seen = Seen { judged: chart.fingerprint.clone(), moving: None, broken: None, undecided: None };
        Live { origin: chart.origin.clone(), helm, current: RwLock::new(Arc::new(chart)), seen: Mutex::new(seen) }
    }

    /// The last good chart. Whoever holds it keeps its copy on disk.
    pub fn current(&self) -> Arc<Chart> {
        // A poisoned lock still holds a whole chart: it is only ever replaced.
        self.current.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Looks once. `None` where there is nothing new to say.
    pub async fn poll(&self) -> Option<Change> {
        let mut seen = self.seen.lock().await;
        let now = blocking(self.origin.clone(), Fingerprint::of).await?;
        if now == seen.judged {
            seen.moving = None;
            return None;
        }
        if seen.moving.as_ref() != Some(&now) {
            seen.moving = Some(now);
            return None;
        }
        match self.judge(&now).await? {
            Verdict::Moving(other) => {
                seen.moving = Some(other);
                None
            }
            Verdict::Undecided(reason) => {
                if seen.undecided.as_ref() != Some(&reason) {
                    tracing::warn!(chart = %self.origin.display(), "cannot check the changed chart: {reason}");
                    seen.undecided = Some(reason);
                }
                None
            }
            Verdict::Same => {
                seen.settle(now);
                seen.broken.take().map(|_| Change::Mended)
            }
            Verdict::New(chart) => {
                seen.settle(now);
                seen.broken = None;
                self.replace(chart.clone());
                Some(Change::New(chart))
            }
            Verdict::Broken(message) => {
                seen.settle(now);
                let is_news = seen.broken.as_ref() != Some(&message);
                seen.broken = Some(message.clone());
                is_news.then_some(Change::Broken(message))
            }
        }
    }

    async fn judge(&self, settled: &Fingerprint) -> Option<Verdict> {
        let loaded: Result<Chart, ChartError> = blocking(self.origin.clone(), Chart::load).await?;
        Some(match loaded {
            Err(ChartError::Copy(error)) => Verdict::Undecided(error.to_string()),
            Err(error) => Verdict::Broken(error.to_string()),
            Ok(chart) if chart.fingerprint != *settled => Verdict::Moving(chart.fingerprint),
            Ok(chart) if chart.digest == self.current().digest => Verdict::Same,
            Ok(chart) => match parses(&chart, &self.helm).await {
                Err(RenderError::Chart(message)) => Verdict::Broken(message),
                Err(error @ (RenderError::Spawn { .. } | RenderError::Temporary(_))) => {
                    Verdict::Undecided(error.to_string())
                }
                _ => Verdict::New(Arc::new(chart)),
            },
        })
    }

    fn replace(&self, chart: Arc<Chart>) {
        *self.current.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = chart;
    }
}

impl Seen {
    fn settle(&mut self, now: Fingerprint) {
        self.judged = now;
        (self.moving, self.undecided) = (None, None);
    }
}

/// Polls until it is dropped and hands every change to `on_change`.
pub async fn watch(live: Arc<Live>, mut on_change: impl FnMut(Change)) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(change) = live.poll().await {
            on_change(change);
        }
    }
}

/// Whether helm can read the chart and parse its templates, asked by a render with the default values.
async fn parses(chart: &Chart, helm: &Helm) -> Result<String, RenderError> {
    // An empty spec always becomes values.
    let Ok(values) = Values::new(None, &Overrides::default()) else { return Ok(String::new()) };
    let capabilities = Capabilities::default();
    let request = Request {
        chart,
        release: "check",
        namespace: "default",
        values: &values,
        capabilities: &capabilities,
        is_upgrade: false,
        revision: 1,
        is_patient: false,
    };
    helm.template(&request).await
}

/// `None` when the runtime is shutting down.
async fn blocking<T: Send + 'static>(path: PathBuf, work: fn(&Path) -> T) -> Option<T> {
    tokio::task::spawn_blocking(move || work(&path)).await.ok()
}
