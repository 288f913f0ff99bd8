//! What can be counted about the operator, for Prometheus: controller-runtime's metrics under its names, so that dashboards and
//! alerts of other operators fit, and our own under `chartwright_`.
//!
//! Two kinds. What happens is counted where it happens, in the families of this module; they belong to the process, as its
//! log does. What is (a queue's length, the state of a custom resource) is looked up when somebody asks, by [`scrape`]. So at rest
//! nothing runs for metrics.
//!
//! It does not serve anything: that is [`super::serve`]. The names are documented in docs/operations.md; a test compares.

pub mod family;
mod process;
pub mod resources;
pub mod scrape;
pub mod text;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use family::{Counter, Counters, Histogram, Histograms, Name};
use text::Text;

/// The label that says which kind of custom resource it is about, as operator-sdk writes it.
pub fn controller(kind: &str) -> String {
    format!("{}-controller", kind.to_lowercase())
}

/// How long reconciles take, in controller-runtime's buckets.
const RECONCILE_BOUNDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
/// Of a queue, in controller-runtime's buckets. Two of them are what ten times the one before is in floating point, there as here.
const QUEUE_BOUNDS: &[f64] =
    &[1e-8, 1e-7, 1e-6, 9.999999999999999e-6, 9.999999999999999e-5, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0];
const RENDER_BOUNDS: &[f64] = &[0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0];

pub static RECONCILES: Counters<2> = Counters::new(
    "controller_runtime_reconcile_total",
    "Total number of reconciliations per controller",
    ["controller", "result"],
);
pub static RECONCILE_ERRORS: Counters<1> = Counters::new(
    "controller_runtime_reconcile_errors_total",
    "Total number of reconciliation errors per controller",
    ["controller"],
);
pub static TERMINAL_ERRORS: Counters<1> = Counters::new(
    "controller_runtime_terminal_reconcile_errors_total",
    "Total number of terminal reconciliation errors per controller",
    ["controller"],
);
pub static PANICS: Counters<1> = Counters::new(
    "controller_runtime_reconcile_panics_total",
    "Total number of reconciliation panics per controller",
    ["controller"],
);
pub static RECONCILE_SECONDS: Histograms<1> = Histograms::new(
    "controller_runtime_reconcile_time_seconds",
    "Length of time per reconciliation per controller",
    ["controller"],
    RECONCILE_BOUNDS,
);

static ADDS: Counters<2> =
    Counters::new("workqueue_adds_total", "Total number of adds handled by workqueue", ["controller", "name"]);
static RETRIES: Counters<2> = Counters::new(
    "workqueue_retries_total",
    "Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit RequeueAfter or AddAfter calls)",
    ["controller", "name"],
);
static WAITED: Histograms<2> = Histograms::new(
    "workqueue_queue_duration_seconds",
    "How long in seconds an item stays in workqueue before being requested",
    ["controller", "name"],
    QUEUE_BOUNDS,
);
static WORKED: Histograms<2> = Histograms::new(
    "workqueue_work_duration_seconds",
    "How long in seconds processing an item from workqueue takes.",
    ["controller", "name"],
    QUEUE_BOUNDS,
);

static REQUESTS: Counters<3> = Counters::new(
    "rest_client_requests_total",
    "Number of HTTP requests, partitioned by status code, method, and host.",
    ["code", "host", "method"],
);
static REQUESTS_RUNNING: Running =
    Running::new("chartwright_api_requests_running", "Requests to the API server that have no answer yet.");

pub static CERTIFICATE_READS: Counters<0> =
    Counters::new("certwatcher_read_certificate_total", "Total number of certificate reads", []);
pub static CERTIFICATE_ERRORS: Counters<0> =
    Counters::new("certwatcher_read_certificate_errors_total", "Total number of certificate read errors", []);

static RENDER_SECONDS: Histograms<2> = Histograms::new(
    "chartwright_render_seconds",
    "How long renders take, from the start of helm to its end, by how they ended.",
    ["controller", "result"],
    RENDER_BOUNDS,
);
static HELMS_RUNNING: Running =
    Running::new("chartwright_helm_processes_running", "helm processes that run right now.");
static HELMS: Counters<0> = Counters::new("chartwright_helm_processes_total", "helm processes that were started.", []);

static REPAIRS: Counters<3> = Counters::new(
    "chartwright_drift_repairs_total",
    "Objects that were applied again because somebody had changed or deleted them, by their group and kind.",
    ["controller", "object_group", "object_kind"],
);
static CONFLICTS: Counters<2> = Counters::new(
    "chartwright_field_conflicts_total",
    "Fields that were taken back, by the field manager that had taken them. It is empty where a field was removed.",
    ["controller", "manager"],
);
static ERRORS: Counters<2> = Counters::new(
    "chartwright_errors_total",
    "Reconciles that failed, by the category that conditions and events name too.",
    ["category", "controller"],
);
static HOOKS: Counters<3> =
    Counters::new("chartwright_hooks_total", "Hooks of charts that ended.", ["controller", "event", "result"]);
static WATCH_RESTARTS: Counters<1> = Counters::new(
    "chartwright_watch_restarts_total",
    "Watches that broke and were started again, by what they watch.",
    ["resource"],
);

static UNREADABLE: Counters<1> = Counters::new(
    "chartwright_unreadable_objects_total",
    "Objects of which a watch could read only the metadata, by what it watches.",
    ["resource"],
);

/// How many of something run right now.
struct Running {
    about: Name<0>,
    count: AtomicI64,
}

impl Running {
    const fn new(name: &'static str, help: &'static str) -> Self {
        Running { about: Name { name, help, labels: [] }, count: AtomicI64::new(0) }
    }

    fn enter(&'static self) -> Inside {
        self.count.fetch_add(1, Ordering::Relaxed);
        Inside(self)
    }

    fn write(&self, text: &mut Text) {
        text.gauge(&self.about, [([], self.count.load(Ordering::Relaxed) as f64)]);
    }
}

/// Counts as one until it is dropped.
pub struct Inside(&'static Running);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A helm process starts. It runs until the answer is dropped.
pub fn helm_starts() -> Inside {
    HELMS.count([]);
    HELMS_RUNNING.enter()
}

/// A request to the API server is sent. It has its answer when this is dropped.
pub fn request_starts() -> Inside {
    REQUESTS_RUNNING.enter()
}

/// The API server answered, or nobody did.
pub fn request_ended(code: Option<u16>, method: &str, host: &str) {
    let code = code.map_or("<error>".to_owned(), |code| code.to_string());
    REQUESTS.count([&code, host, method]);
}

/// helm has ended, well or with an error of this category.
pub fn rendered(kind: &str, result: &str, took: Duration) {
    RENDER_SECONDS.of([&controller(kind), result]).measure(took);
}

/// An object of a release was applied again.
pub fn repaired<'a>(kind: &str, object: (&str, &str), taken_from: impl Iterator<Item = Option<&'a str>>) {
    let controller = controller(kind);
    REPAIRS.count([&controller, object.0, object.1]);
    for manager in taken_from {
        CONFLICTS.count([&controller, manager.unwrap_or_default()]);
    }
}

pub fn failed(kind: &str, category: &str) {
    ERRORS.count([category, &controller(kind)]);
}

pub fn hook_ended(kind: &str, event: &str, succeeded: bool) {
    HOOKS.count([&controller(kind), event, if succeeded { "succeeded" } else { "failed" }]);
}

/// From now on its restarts are shown, from zero on.
pub fn watch_starts(resource: &str) {
    WATCH_RESTARTS.of([resource]);
}

pub fn watch_restarted(resource: &str) {
    WATCH_RESTARTS.count([resource]);
}

/// A watch could not read an object.
pub fn unreadable(resource: &str) {
    UNREADABLE.count([resource]);
}

/// What a queue counts.
#[derive(Clone)]
pub struct QueueMeter {
    pub adds: Counter,
    pub retries: Counter,
    pub waited: Histogram,
    pub worked: Histogram,
}

impl QueueMeter {
    /// Of the kind that a queue is for.
    pub fn of(kind: &str) -> Self {
        let name = controller(kind);
        let labels = [name.as_str(), name.as_str()];
        QueueMeter {
            adds: ADDS.of(labels),
            retries: RETRIES.of(labels),
            waited: WAITED.of(labels),
            worked: WORKED.of(labels),
        }
    }
}

/// All that was counted so far.
fn write_counted(text: &mut Text) {
    RECONCILES.write(text);
    for family in [&RECONCILE_ERRORS, &TERMINAL_ERRORS, &PANICS] {
        family.write(text);
    }
    RECONCILE_SECONDS.write(text);
    for family in [&ADDS, &RETRIES] {
        family.write(text);
    }
    for family in [&WAITED, &WORKED] {
        family.write(text);
    }
    REQUESTS.write(text);
    for family in [&CERTIFICATE_READS, &CERTIFICATE_ERRORS] {
        family.write(text);
    }
    for running in [&REQUESTS_RUNNING, &HELMS_RUNNING] {
        running.write(text);
    }
    HELMS.write(text);
    RENDER_SECONDS.write(text);
    REPAIRS.write(text);
    CONFLICTS.write(text);
    ERRORS.write(text);
    HOOKS.write(text);
    WATCH_RESTARTS.write(text);
    UNREADABLE.write(text);
}
