//! The figures for a person, each beside its target where it has one.
//!
//! The targets are here and nowhere else. A missed one is said, and is no failure.

use serde::Serialize;
use serde_json::{Value, json};

use crate::report::{Cost, Edit, Heal, Install, Memory, Report, Reports, Restart};
use crate::stats::{Latency, round};

/// How much longer than the floor an install may take.
pub const INSTALL_TO_FLOOR: f64 = 1.5;
pub const CALLS_PER_CR: f64 = 18.0;
pub const CHANGING_PER_CR: f64 = 11.0;
/// Besides watches and leases.
pub const REST_CALLS_PER_MINUTE: f64 = 5.0;
pub const REST_PERCENT_OF_A_CORE: f64 = 0.5;
pub const EDIT_TO_BASELINE: f64 = 1.5;
pub const EDIT_UNDER_LOAD_TO_BASELINE: f64 = 5.0;
pub const HEAL_MEDIAN_MS: f64 = 100.0;
pub const HEAL_P99_MS: f64 = 300.0;
pub const RESTART_EDIT_SECONDS: f64 = 3.0;
/// At a thousand custom resources.
pub const MEMORY_MIB: f64 = 80.0;
pub const GROWTH_KIB_PER_CR: f64 = 10.0;

/// A line of the table.
#[derive(Debug, PartialEq, Serialize)]
pub struct Line {
    pub phase: &'static str,
    pub what: String,
    pub value: String,
    pub target: Option<String>,
    pub met: Option<bool>,
}

/// What a figure should be.
enum Target {
    None,
    AtMost(f64),
    Below(f64),
}

impl Line {
    fn new(phase: &'static str, what: impl Into<String>, value: f64, unit: &str, target: Target) -> Self {
        let (target, met) = match target {
            Target::None => (None, None),
            Target::AtMost(most) => (Some(format!("<= {}", figure(most, unit))), Some(value <= most)),
            Target::Below(limit) => (Some(format!("< {}", figure(limit, unit))), Some(value < limit)),
        };
        Line { phase, what: what.into(), value: figure(value, unit), target, met }
    }
}

fn figure(value: f64, unit: &str) -> String {
    let digits = if value == value.trunc() { 0 } else { 2 };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

/// The whole text.
pub fn print(reports: &Reports) -> String {
    let mut text = String::new();
    for report in &reports.runs {
        let (n, namespaces, cores) = (report.n, report.namespaces, report.cores);
        let title = format!("{n} custom resources in {namespaces} namespaces, {cores} cores");
        text += &format!("\n{title}\n\n{}", grid(&lines(report)));
    }
    if let Some(line) = growth(reports) {
        text += &format!("\n{}", grid(&[line]));
    }
    text
}

/// The figures, and the lines of the table that have a target.
pub fn json(reports: &Reports) -> Value {
    let judged = reports.runs.iter().map(|report| {
        let lines: Vec<Line> = lines(report).into_iter().filter(|line| line.met.is_some()).collect();
        json!({"n": report.n, "lines": lines})
    });
    let judged: Vec<Value> = judged.collect();
    json!({
        "runs": reports.runs,
        "growth_kib_per_cr": reports.growth_kib_per_cr,
        "targets": {"runs": judged, "growth": growth(reports)},
    })
}

fn growth(reports: &Reports) -> Option<Line> {
    let growth = reports.growth_kib_per_cr?;
    Some(Line::new("memory", "growth per custom resource", growth, "KiB", Target::Below(GROWTH_KIB_PER_CR)))
}

fn grid(lines: &[Line]) -> String {
    let mut rows = vec![["phase", "what", "figure", "target", ""].map(str::to_owned)];
    let mut phase = "";
    for line in lines {
        let verdict = line.met.map_or("", |met| if met { "met" } else { "missed" });
        let shown = if phase == line.phase { "" } else { line.phase };
        phase = line.phase;
        let target = line.target.clone().unwrap_or_default();
        rows.push([shown.to_owned(), line.what.clone(), line.value.clone(), target, verdict.to_owned()]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for [phase, what, value, target, verdict] in &rows {
        let [a, b, c, d] = widths;
        text += format!("{phase:a$}  {what:b$}  {value:>c$}  {target:d$}  {verdict}").trim_end();
        text.push('\n');
    }
    text
}

pub fn lines(report: &Report) -> Vec<Line> {
    let mut lines = vec![];
    if let Some(floor) = &report.floor {
        let (helm, calls) = (floor.helm_parallelism, floor.api_parallelism);
        let what = |text: &str, at_once: usize| format!("{text}, {at_once} at once");
        lines.push(Line::new("floor", what("helm template", helm), floor.render_seconds, "s", Target::None));
        lines.push(Line::new("", what("apply", calls), floor.apply_seconds, "s", Target::None));
        lines.push(Line::new("", "both, one after the other", floor.sum_seconds, "s", Target::None));
    }
    lines.extend(install(report));
    lines.extend(memory(report.n, &report.memory));
    lines.extend(rest(&report.rest));
    lines.extend(report.edit.iter().flat_map(edit));
    lines.extend(report.heal.iter().flat_map(heal));
    lines.extend(restart(&report.restart));
    lines.push(Line::new("delete", "until all are gone", report.delete.seconds, "s", Target::None));
    lines.push(Line::new("delete", "CPU, operator", report.delete.cost.operator_cpu_seconds, "s", Target::None));
    name_phases(lines)
}

/// A line without a phase belongs to the one above.
fn name_phases(mut lines: Vec<Line>) -> Vec<Line> {
    let mut phase = "";
    for line in &mut lines {
        if line.phase.is_empty() {
            line.phase = phase;
        }
        phase = line.phase;
    }
    lines
}

/// Calls of the install by custom resource: all, and those that change something.
pub fn calls_per_cr(report: &Report) -> (f64, f64) {
    let api = &report.install.cost.api;
    let per_cr = |count: usize| round(count as f64 / report.n.max(1) as f64);
    (per_cr(api.calls), per_cr(api.changing))
}

fn install(report: &Report) -> Vec<Line> {
    let Install { cost, .. } = &report.install;
    let it = &report.install;
    let none = || Target::None;
    let mut lines = vec![
        Line::new("install", "until all are created", it.creating_seconds, "s", none()),
        Line::new("", "until all are deployed", it.deployed_seconds, "s", none()),
    ];
    if let Some(floor) = report.floor.as_ref().filter(|floor| floor.sum_seconds > 0.0) {
        let ratio = it.deployed_seconds / floor.sum_seconds;
        lines.push(Line::new("", "the same by the floor", ratio, "x", Target::AtMost(INSTALL_TO_FLOOR)));
    }
    let (calls, changing) = calls_per_cr(report);
    lines.extend([
        Line::new("", "until all are ready", it.ready_seconds, "s", none()),
        Line::new("", "until the operator's last write", it.settled_seconds, "s", none()),
        Line::new("", "CPU, operator and helm", cost.operator_cpu_seconds, "s", none()),
        Line::new("", "CPU, API server", cost.api_server_cpu_seconds, "s", none()),
        Line::new("", "peak memory, operator", mib(it.peak_operator_kib), "MiB", none()),
        Line::new("", "peak memory, operator and helm", mib(it.peak_with_children_kib), "MiB", none()),
        Line::new("", "helm processes", cost.helm.processes as f64, "", none()),
        Line::new("", "calls per custom resource", calls, "", Target::AtMost(CALLS_PER_CR)),
        Line::new("", "of them changing something", changing, "", Target::AtMost(CHANGING_PER_CR)),
    ]);
    for (verb, count) in &cost.api.by_verb {
        lines.push(Line::new("", format!("by verb: {verb}"), *count as f64 / report.n.max(1) as f64, "", none()));
    }
    lines.push(Line::new("", "watches opened", cost.api.watches as f64, "", none()));
    lines
}

fn memory(n: usize, memory: &Memory) -> [Line; 2] {
    let target = if n <= 1000 { Target::Below(MEMORY_MIB) } else { Target::None };
    [
        Line::new("memory", "resident, after the install", mib(memory.rss_kib), "MiB", target),
        Line::new("memory", "anonymous, after the install", mib(memory.anonymous_kib), "MiB", Target::None),
    ]
}

fn rest(cost: &Cost) -> Vec<Line> {
    let length = cost.seconds.max(f64::MIN_POSITIVE);
    let (calls, percent) = (cost.api.calls as f64 * 60.0 / length, cost.operator_cpu_seconds * 100.0 / length);
    vec![
        Line::new("rest", "measured for", cost.seconds, "s", Target::None),
        Line::new("", "calls a minute", calls, "", Target::Below(REST_CALLS_PER_MINUTE)),
        Line::new("", "writes", cost.api.writes as f64, "", Target::AtMost(0.0)),
        Line::new("", "watches opened", cost.api.watches as f64, "", Target::None),
        Line::new("", "calls on leases", cost.api.leases as f64, "", Target::None),
        Line::new("", "helm processes", cost.helm.processes as f64, "", Target::AtMost(0.0)),
        Line::new("", "CPU", cost.operator_cpu_seconds, "s", Target::None),
        Line::new("", "CPU, percent of a core", percent, "%", Target::Below(REST_PERCENT_OF_A_CORE)),
    ]
}

fn edit(edit: &Edit) -> Vec<Line> {
    let base = edit.baseline.sum_ms;
    let parts = [
        ("baseline: helm template", edit.baseline.helm_template.median_ms),
        ("baseline: dry run", edit.baseline.dry_run.median_ms),
        ("baseline: apply", edit.baseline.apply.median_ms),
        ("baseline", base),
    ];
    // Without a floor there is no baseline either.
    let parts = parts.into_iter().filter(|_| base > 0.0);
    let mut lines: Vec<Line> = parts.map(|(what, value)| Line::new("edit", what, value, "ms", Target::None)).collect();
    let series =
        [("alone", &edit.alone, EDIT_TO_BASELINE), ("under load", &edit.under_load, EDIT_UNDER_LOAD_TO_BASELINE)];
    for (name, latency, most) in series.into_iter().filter(|it| it.1.samples > 0) {
        lines.push(Line::new("edit", format!("{name}: median"), latency.median_ms, "ms", Target::None));
        if base > 0.0 {
            let ratio = latency.median_ms / base;
            lines.push(Line::new("", format!("{name}: median by baseline"), ratio, "x", Target::AtMost(most)));
        }
        lines.push(Line::new("", format!("{name}: p99"), latency.p99_ms, "ms", Target::None));
        lines.push(Line::new("", format!("{name}: longest"), latency.max_ms, "ms", Target::None));
        lines.extend(never("", name, latency));
    }
    lines.push(Line::new("", "installed meanwhile", edit.load as f64, "", Target::None));
    lines
}

fn heal(heal: &Heal) -> Vec<Line> {
    let series = [
        ("deleted Service", &heal.deleted_service),
        ("changed Service", &heal.edited_service),
        ("changed Deployment", &heal.edited_deployment),
    ];
    let lines = series.into_iter().flat_map(|(name, latency)| {
        let figures = [("median", latency.median_ms, HEAL_MEDIAN_MS), ("p99", latency.p99_ms, HEAL_P99_MS)];
        let seen = latency.samples > latency.never;
        let figures = figures.into_iter().filter(move |_| seen).map(move |(what, value, limit)| {
            Line::new("heal", format!("{name}: {what}"), value, "ms", Target::Below(limit))
        });
        figures.chain(never("heal", name, latency)).collect::<Vec<_>>()
    });
    lines.collect()
}

/// Said only where there were any.
fn never(phase: &'static str, name: &str, latency: &Latency) -> Option<Line> {
    let what = format!("{name}: never, of {}", latency.samples);
    (latency.never > 0).then(|| Line::new(phase, what, latency.never as f64, "", Target::AtMost(0.0)))
}

fn restart(restart: &Restart) -> Vec<Line> {
    let cost = &restart.cost;
    let mut lines = vec![
        Line::new("restart", "from SIGTERM to the end", restart.end_seconds, "s", Target::None),
        Line::new("", "counted after the start for", cost.seconds, "s", Target::None),
        Line::new("", "helm processes", cost.helm.processes as f64, "", Target::None),
        Line::new("", "renders of custom resources", cost.helm.renders as f64, "", Target::AtMost(0.0)),
        Line::new("", "writes", cost.api.writes as f64, "", Target::AtMost(0.0)),
        Line::new("", "calls", cost.api.calls as f64, "", Target::None),
        Line::new("", "CPU", cost.operator_cpu_seconds, "s", Target::None),
    ];
    let what = "an edit right after a start is served after";
    let target = || Target::AtMost(RESTART_EDIT_SECONDS);
    lines.push(match restart.edit_served_seconds {
        Some(served) => Line::new("", what, served, "s", target()),
        None => Line { value: "never".into(), ..Line::new("", what, f64::MAX, "s", target()) },
    });
    lines
}

fn mib(kib: u64) -> f64 {
    round(kib as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Tally;

    fn line<'a>(lines: &'a [Line], phase: &str, what: &str) -> &'a Line {
        lines.iter().find(|line| line.phase == phase && line.what == what).unwrap()
    }

    #[test]
    fn a_figure_meets_its_target_or_misses_it() {
        let mut report = Report { n: 10, ..Report::default() };
        report.install.cost.api = Tally { calls: 180, changing: 111, ..Tally::default() };
        report.rest = Cost { seconds: 30.0, operator_cpu_seconds: 0.15, ..Cost::default() };
        let lines = lines(&report);
        assert_eq!(line(&lines, "install", "calls per custom resource").met, Some(true));
        assert_eq!(line(&lines, "install", "of them changing something").met, Some(false));
        assert_eq!(line(&lines, "rest", "CPU, percent of a core").met, Some(false));
        assert_eq!(line(&lines, "rest", "writes").met, Some(true));
        assert_eq!(line(&lines, "restart", "an edit right after a start is served after").met, Some(false));
    }

    #[test]
    fn the_table_says_each_phase_once() {
        let text = print(&Reports::new(vec![Report { n: 10, namespaces: 2, ..Report::default() }]));
        assert_eq!(text.lines().filter(|line| line.starts_with("rest ")).count(), 1);
        assert!(text.contains("10 custom resources in 2 namespaces"), "{text}");
    }
}
