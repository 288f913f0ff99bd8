//! What was found, for a person.

use crate::Phase;
use crate::report::{PhaseReport, Report};

/// How much of a value is shown.
const WIDTH: usize = 60;

/// One report with every difference.
pub fn print(report: &Report) -> String {
    let mut text = format!("{}, helm {}\n\n", report.chart, report.helm.name());
    let mut rows = vec![["phase", "objects", "random", "allowed", "different", ""].map(str::to_owned)];
    for phase in &report.phases {
        let it = &phase.compared;
        let allowed: usize = it.allowed.values().sum();
        let numbers = [it.objects, it.random, allowed, it.differences.len()].map(|number| number.to_string());
        let [objects, random, allowed, different] = numbers;
        rows.push([phase.phase.name().to_owned(), objects, random, allowed, different, refusal(phase)]);
    }
    text += &grid(&rows, &[1, 2, 3, 4]);
    let mut rows = vec![["object", "phase", "field", "helm", "Chartwright"].map(str::to_owned)];
    for phase in &report.phases {
        for it in &phase.compared.differences {
            let field = if it.field.is_empty() { "(the object)" } else { &it.field };
            let cells = [&it.object, phase.phase.name(), field, &shown(&it.helm), &shown(&it.chartwright)];
            rows.push(cells.map(str::to_owned));
        }
    }
    if rows.len() > 1 {
        rows[1..].sort();
        text += &format!("\n{}", grid(&rows, &[]));
    }
    for note in &report.notes {
        text += &format!("\nnote: {note}\n");
    }
    for phase in report.phases.iter().filter(|phase| phase.helm_refuses.is_some() || !phase.agrees()) {
        if !phase.is_expected {
            text += &format!("\n{}: the case declares something else\n", phase.phase.name());
        }
        let say = |who: &str, reason: &Option<String>| match reason {
            Some(reason) => format!("\n{}: {who} refuses: {}\n", phase.phase.name(), reason.trim()),
            None => format!("\n{}: {who} does it\n", phase.phase.name()),
        };
        text += &say("helm", &phase.helm_refuses);
        text += &say("Chartwright", &phase.chartwright_refuses);
    }
    text + &format!("\n{}\n", verdict(report))
}

/// Many reports, a line each, printed as they come.
pub struct Summary {
    /// Of the first column.
    width: usize,
}

impl Summary {
    /// For cases of these names.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        Summary { width: names.map(|name| name.chars().count()).max().unwrap_or_default().max(4) }
    }

    pub fn head(&self) -> String {
        self.line(["case", "helm", "install", "upgrade", "uninstall", "verdict", "seconds"].map(str::to_owned))
    }

    pub fn row(&self, report: &Report) -> String {
        let cell = |phase: Phase| report.phases.iter().find(|it| it.phase == phase).map_or_else(|| "-".into(), outcome);
        let [install, upgrade, uninstall] = Phase::ALL.map(cell);
        let verdict = if report.error.is_some() { "error".to_owned() } else { short_verdict(report) };
        let seconds = format!("{:.1}", report.seconds);
        self.line([report.case.clone(), report.helm.name().into(), install, upgrade, uninstall, verdict, seconds])
    }

    fn line(&self, [case, helm, install, upgrade, uninstall, verdict, seconds]: [String; 7]) -> String {
        let width = self.width;
        format!("{case:width$}  {helm:4}  {install:12}  {upgrade:12}  {uninstall:12}  {verdict:15}  {seconds:>7}\n")
    }
}

/// All of those that are not equal, and the notes of the others.
pub fn details(reports: &[Report]) -> String {
    let unequal = reports.iter().filter(|report| !report.is_equal());
    let noted = reports.iter().filter(|report| report.is_equal()).flat_map(|report| {
        let (case, helm) = (&report.case, report.helm.name());
        report.notes.iter().map(move |note| format!("\nnote: {case}, helm {helm}: {note}\n"))
    });
    unequal.map(|report| format!("\n{}: {}", report.case, print(report))).chain(noted).collect()
}

fn outcome(phase: &PhaseReport) -> String {
    match (&phase.helm_refuses, &phase.chartwright_refuses) {
        (Some(_), Some(_)) if phase.compared.differences.is_empty() => "both refuse".to_owned(),
        (Some(_), None) => "helm refuses".to_owned(),
        (None, Some(_)) => "we refuse".to_owned(),
        _ => match phase.compared.differences.len() {
            0 => format!("{} equal", phase.compared.objects),
            count => format!("{count} differ"),
        },
    }
}

fn short_verdict(report: &Report) -> String {
    match report.differences() {
        0 => match (report.refused(), report.notes.len()) {
            (Some(_), _) => "both refuse".to_owned(),
            (None, 0) => "equal".to_owned(),
            (None, _) => "equal, a note".to_owned(),
        },
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    }
}

fn verdict(report: &Report) -> String {
    match (&report.error, report.differences()) {
        (Some(error), _) => format!("error: {error}"),
        (None, 0) => match report.refused() {
            Some(phase) => format!("both refuse the {}, {:.1} s", phase.name(), report.seconds),
            None => format!("no difference, {:.1} s", report.seconds),
        },
        (None, _) => format!("{}, {:.1} s", short_verdict(report), report.seconds),
    }
}

fn refusal(phase: &PhaseReport) -> String {
    let first = |reason: &Option<String>| reason.as_ref().map(|it| cut(it.lines().next().unwrap_or_default()));
    match (first(&phase.helm_refuses), first(&phase.chartwright_refuses)) {
        (Some(reason), Some(_)) => format!("both refuse: {reason}"),
        (Some(reason), None) => format!("helm refuses: {reason}"),
        (None, Some(reason)) => format!("Chartwright refuses: {reason}"),
        (None, None) => String::new(),
    }
}

fn shown(value: &Option<String>) -> String {
    value.as_ref().map_or_else(|| "-".to_owned(), |value| cut(value))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Columns side by side; those of numbers end at one edge.
fn grid<const N: usize>(rows: &[[String; N]], numbers: &[usize]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| match numbers.contains(&column) {
            true => format!("{cell:>0$}", widths[column]),
            false => format!("{cell:0$}", widths[column]),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HelmVersion;
    use crate::report::{Compared, Difference};

    fn report(differences: Vec<Difference>, ours: Option<String>) -> Report {
        let compared = Compared { objects: 3, differences, ..Compared::default() };
        let phase = PhaseReport {
            phase: Phase::Install,
            helm_refuses: None,
            chartwright_refuses: ours,
            is_expected: true,
            compared,
            seconds: 1.0,
        };
        Report {
            case: "web".into(),
            helm: HelmVersion::Four,
            chart: "web 0.1.0".into(),
            notes: vec![],
            phases: vec![phase],
            seconds: 1.5,
            error: None,
        }
    }

    #[test]
    fn a_report_without_a_difference_says_so() {
        let report = report(vec![], None);
        assert!(report.is_equal());
        assert!(print(&report).ends_with("\nno difference, 1.5 s\n"), "{}", print(&report));
        let summary = Summary::of(["web", "database"].into_iter());
        assert_eq!(summary.head().len(), summary.row(&report).len());
        assert!(summary.row(&report).starts_with("web       4     3 equal  "), "{}", summary.row(&report));
        assert_eq!(details(&[report]), "");
    }

    #[test]
    fn a_difference_is_named_with_both_values() {
        let difference = Difference {
            object: "Service a/web".into(),
            field: "/spec/type".into(),
            helm: Some("\"ClusterIP\"".into()),
            chartwright: None,
        };
        let report = report(vec![difference], None);
        assert!(!report.is_equal());
        let text = print(&report);
        assert!(text.contains("Service a/web  install  /spec/type  \"ClusterIP\"  -\n"), "{text}");
        assert!(Summary::of(["web"].into_iter()).row(&report).contains("1 differ"));
        assert!(details(&[report]).starts_with("\nweb: web 0.1.0, helm 4\n"));
    }

    #[test]
    fn a_refusal_of_both_sides_is_said_and_has_to_be_declared() {
        let mut report = report(vec![], Some("InvalidValues: no".into()));
        report.phases[0].helm_refuses = Some("no".into());
        assert!(report.is_equal());
        assert!(Summary::of(["web"].into_iter()).row(&report).contains(" both refuse      "));
        assert!(print(&report).ends_with("\nboth refuse the install, 1.5 s\n"));
        report.phases[0].is_expected = false;
        assert!(!report.is_equal() && report.differences() == 1);
        assert!(print(&report).contains("the case declares something else"));
    }

    #[test]
    fn a_note_is_not_hidden() {
        let mut report = report(vec![], None);
        report.notes.push("install: Pod a/web did not come to rest".into());
        assert!(Summary::of(["web"].into_iter()).row(&report).contains("equal, a note"));
        assert!(details(&[report]).contains("note: web, helm 4: install: Pod a/web"));
    }

    #[test]
    fn a_refusal_of_one_side_is_a_difference() {
        let report = report(vec![], Some("InvalidValues: no".into()));
        assert!(!report.is_equal());
        assert!(print(&report).contains("install: Chartwright refuses: InvalidValues: no"));
        assert!(Summary::of(["web"].into_iter()).row(&report).contains("we refuse"));
    }
}
