//! What is left out and which differences are allowed, as the tables of docs/fidelity.md say. Pure.
//!
//! The document is the list. A row that cannot be read is an error, so that no word of it is without effect.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::object::{Path, Unequal, segments};
use crate::{HelmVersion, Phase};

pub const LEFT_OUT: &str = "## Left out";
pub const ALLOWED: &str = "## The list";

#[derive(Debug)]
pub struct Allowed {
    rows: Vec<Row>,
}

#[derive(Debug, PartialEq)]
pub struct Row {
    /// A pattern of kinds.
    objects: Vec<String>,
    /// A pattern of paths. Empty for whole objects.
    field: Path,
    rule: Rule,
    phases: Vec<Phase>,
    helms: Vec<HelmVersion>,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Neither side is looked at.
    LeftOut,
    /// Only Chartwright has it.
    Ours,
    /// Only helm has it.
    Helms,
    /// Only Chartwright has the object. An earlier render had it too, the last one has not.
    Kept,
    /// Both have it, with another value.
    Other,
    /// Both have it, with another value, and the chart does not set it.
    Allocated,
    /// Only helm still has it: an earlier render set it as text, the last one does not, and has the object.
    Dropped,
    /// Only Chartwright has it, and the chart sets it to null.
    Null,
    /// The workload's size is an autoscaler's business, and helm's is the smaller one.
    Autoscaled,
    /// A label that only helm's object has, since the API server gives an object without labels those of its pods.
    FromThePods,
    /// Both tell why a revision failed.
    Reason,
    /// The same numbers, those of helm rounded and written with an exponent.
    Number,
}

/// Where a difference was found.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub kind: &'a str,
    pub phase: Phase,
    pub helm: HelmVersion,
    /// The chart sets the field.
    pub is_set: bool,
    /// The chart sets it to null.
    pub is_null: bool,
    /// An earlier render had the whole object, or the text of the Secret; the last one has not.
    pub is_dropped: bool,
    /// It is the record of a revision that failed on both sides.
    pub has_failed: bool,
    /// An autoscaler decides how many pods the workload has that the object belongs to.
    pub is_scaled: bool,
    /// The labels of the pods that helm's object makes.
    pub pod_labels: Option<&'a Value>,
}

impl Allowed {
    /// Reads both tables of the document.
    ///
    /// # Errors
    /// A table is missing, or a row cannot be read.
    pub fn parse(document: &str) -> Result<Self> {
        let mut rows = vec![];
        for cells in table(document, LEFT_OUT)? {
            let [objects, field, why] = cells.as_slice() else { bail!("not three cells under {LEFT_OUT}: {cells:?}") };
            rows.push(Row::parse([objects, field, "left out", "all", "3, 4", why])?);
        }
        for cells in table(document, ALLOWED)? {
            let [objects, field, rule, phase, helm, why] = cells.as_slice() else {
                bail!("not six cells under {ALLOWED}: {cells:?}")
            };
            rows.push(Row::parse([objects, field, rule, phase, helm, why])?);
        }
        Ok(Allowed { rows })
    }

    /// The first row that allows a difference.
    pub fn find(&self, found: &Unequal<'_>, place: Place<'_>) -> Option<&Row> {
        self.rows.iter().find(|row| row.allows(found, place))
    }

    /// Whether objects of this kind are not looked at at all.
    pub fn leaves_out(&self, kind: &str) -> bool {
        self.rows.iter().any(|row| row.rule == Rule::LeftOut && row.field.is_empty() && row.is_about(kind))
    }
}

impl Row {
    fn parse([objects, field, rule, phases, helms, why]: [&str; 6]) -> Result<Self> {
        let what = || format!("docs/fidelity.md: the row of {objects} {field}");
        ensure!(field.starts_with('/'), "{}: a field begins with a slash", what());
        Ok(Row {
            objects: list(objects),
            field: segments(field),
            rule: Rule::parse(rule).with_context(what)?,
            phases: match phases {
                "all" => Phase::ALL.to_vec(),
                _ => list(phases).iter().map(|name| Phase::parse(name)).collect::<Result<_>>().with_context(what)?,
            },
            helms: list(helms).iter().map(|name| HelmVersion::parse(name)).collect::<Result<_>>().with_context(what)?,
            why: why.to_owned(),
        })
    }

    pub fn is_left_out(&self) -> bool {
        self.rule == Rule::LeftOut
    }

    fn is_about(&self, kind: &str) -> bool {
        self.objects.iter().any(|pattern| glob(pattern, kind))
    }

    fn allows(&self, found: &Unequal<'_>, place: Place<'_>) -> bool {
        let here = self.phases.contains(&place.phase) && self.helms.contains(&place.helm) && self.is_about(place.kind);
        here && matches(&self.field, &found.path)
            && match (self.rule, found.left, found.right) {
                (Rule::LeftOut, ..) | (Rule::Ours, None, Some(_)) | (Rule::Helms, Some(_), None) => true,
                (Rule::Other, Some(_), Some(_)) => true,
                (Rule::Reason, Some(_), Some(_)) => place.has_failed,
                (Rule::Kept, None, Some(_)) | (Rule::Dropped, Some(_), None) => place.is_dropped,
                (Rule::Null, None, Some(_)) => place.is_null,
                (Rule::Autoscaled, None, Some(_)) => place.is_scaled,
                (Rule::Autoscaled, Some(left), Some(right)) => place.is_scaled && is_less(left, right),
                (Rule::FromThePods, Some(label), None) => {
                    let of_pods = found.path.last().and_then(|key| place.pod_labels?.get(key));
                    of_pods == Some(label)
                }
                (Rule::Allocated, Some(left), Some(right)) => !place.is_set && is_alike(left, right),
                (Rule::Number, Some(Value::String(left)), Some(Value::String(right))) => same_numbers(left, right),
                _ => false,
            }
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "left out" => Rule::LeftOut,
            "only ours" => Rule::Ours,
            "only helm's" => Rule::Helms,
            "kept" => Rule::Kept,
            "other value" => Rule::Other,
            "allocated" => Rule::Allocated,
            "dropped" => Rule::Dropped,
            "null" => Rule::Null,
            "autoscaled" => Rule::Autoscaled,
            "reason" => Rule::Reason,
            "from the pods" => Rule::FromThePods,
            "number" => Rule::Number,
            _ => bail!("there is no rule {text:?}"),
        })
    }
}

fn list(cell: &str) -> Vec<String> {
    cell.split(',').map(|part| part.trim().to_owned()).collect()
}

/// The cells of the rows of the table under a heading, without backticks.
pub fn table(document: &str, heading: &str) -> Result<Vec<Vec<String>>> {
    let section = document.lines().skip_while(|line| *line != heading).skip(1);
    let section = section.take_while(|line| !line.starts_with('#'));
    let rows = section.filter(|line| line.starts_with('|') && !line.starts_with("|---")).skip(1);
    let rows: Vec<Vec<String>> = rows
        .map(|line| {
            let cells = line.trim().trim_matches('|').split('|');
            cells.map(|cell| cell.trim().replace('`', "")).collect()
        })
        .collect();
    ensure!(!rows.is_empty(), "docs/fidelity.md has no table under {heading:?}");
    Ok(rows)
}

/// Whether a path has a pattern. `**` stands for any number of segments, `*` inside a segment for anything.
fn matches(pattern: &[String], path: &[String]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((first, rest)) if first == "**" => (0..=path.len()).any(|skipped| matches(rest, &path[skipped..])),
        Some((first, rest)) => path.split_first().is_some_and(|(head, tail)| glob(first, head) && matches(rest, tail)),
    }
}

fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| glob(after, &rest[at..]))
        }),
    }
}

fn is_alike(left: &Value, right: &Value) -> bool {
    let is_none = |value: &Value| value.as_str().is_some_and(|text| text.is_empty() || text == "None");
    std::mem::discriminant(left) == std::mem::discriminant(right) && is_none(left) == is_none(right)
}

/// Whether the first of two counts is smaller. In annotations they are texts.
fn is_less(left: &Value, right: &Value) -> bool {
    let count = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    count(left).zip(count(right)).is_some_and(|(left, right)| left < right)
}

/// Whether two texts differ only in how numbers from a million upwards are written: helm's with an exponent, ours in full.
fn same_numbers(helm: &str, ours: &str) -> bool {
    let (helm, ours) = (tokens(helm), tokens(ours));
    helm.len() == ours.len() && helm.iter().zip(&ours).all(|(helm, ours)| helm == ours || is_rounded(helm, ours))
}

/// Whether helm's number with an exponent is what it makes of our integer. Up to 2^53 it is exact.
fn is_rounded(helm: &str, ours: &str) -> bool {
    const EXACT: u128 = 1 << 53;
    let ours: Option<u128> = ours.parse().ok().filter(|it| *it >= 1_000_000);
    match (expanded(helm), ours) {
        (Some(helm), Some(ours)) => helm == ours || ours > EXACT && same_double(helm, ours),
        _ => false,
    }
}

fn same_double(left: u128, right: u128) -> bool {
    let double = |number: u128| number.to_string().parse::<f64>();
    matches!((double(left), double(right)), (Ok(left), Ok(right)) if left == right)
}

/// The integer that a number with an exponent stands for.
fn expanded(text: &str) -> Option<u128> {
    let (digits, exponent) = text.split_once("e+")?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let zeros = exponent.parse::<usize>().ok()?.checked_sub(part.len()).filter(|zeros| *zeros < 39)?;
    format!("{whole}{part}{}", "0".repeat(zeros)).parse().ok()
}

/// Numbers, and what is between them.
fn tokens(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '+');
    let mut found = vec![];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let inside = first.is_ascii_digit();
        let end = rest.find(|c: char| if inside { !is_part(c) } else { c.is_ascii_digit() }).unwrap_or(rest.len());
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DOCUMENT: &str = "# x\n\n## Left out\n\n| objects | field | why |\n|---|---|---|\n| `*` | `/metadata/uid` | x |\n\
        | `Event` | `/` | x |\n| `*` | `/**/*Time` | x |\n\n## The list\n\n\
        | objects | field | rule | phase | helm | why |\n|---|---|---|---|---|---|\n\
        | `*` | `/metadata/labels/a~1b*` | only ours | all | 3, 4 | ours |\n\
        | `Service` | `/spec/clusterIP` | allocated | install, upgrade | 3 | the cluster |\n\
        | `*` | `/data/**` | number | all | 3, 4 | exact |\n\
        | `Job` | `/metadata/labels/*` | from the pods | all | 4 | defaults |\n\
        | `Deployment` | `/spec/replicas` | autoscaled | all | 4 | others decide |\n\
        | `Secret` | `/**` | null | all | 4 | a patch |\n\
        | `Record` | `/info/description` | reason | all | 4 | words |\n";

    const PLACE: Place<'_> = Place {
        kind: "Pod",
        phase: Phase::Install,
        helm: HelmVersion::Four,
        is_set: false,
        is_null: false,
        is_dropped: false,
        has_failed: false,
        is_scaled: false,
        pod_labels: None,
    };

    fn allows(kind: &str, path: &str, left: Option<Value>, right: Option<Value>) -> bool {
        let found = Unequal { path: segments(path), left: left.as_ref(), right: right.as_ref() };
        let place = Place { kind, phase: Phase::Install, helm: HelmVersion::Three, ..PLACE };
        Allowed::parse(DOCUMENT).unwrap().find(&found, place).is_some()
    }

    #[test]
    fn a_row_allows_what_it_says_and_no_more() {
        let x = || Some(json!("x"));
        assert!(allows("Pod", "/metadata/uid", x(), None));
        assert!(allows("Pod", "/status/conditions/0/lastTransitionTime", x(), x()));
        assert!(allows("Pod", "/metadata/labels/a~1bc", None, x()));
        assert!(!allows("Pod", "/metadata/labels/a~1bc", x(), None));
        assert!(!allows("Pod", "/metadata/labels/a", None, x()));
        assert!(allows("Service", "/spec/clusterIP", Some(json!("10.0.0.1")), Some(json!("10.0.0.2"))));
        assert!(!allows("Service", "/spec/clusterIP", Some(json!("10.0.0.1")), Some(json!("None"))));
        assert!(!allows("Ingress", "/spec/clusterIP", Some(json!("10.0.0.1")), Some(json!("10.0.0.2"))));
    }

    #[test]
    fn a_row_counts_for_its_phases_and_versions() {
        let allowed = Allowed::parse(DOCUMENT).unwrap();
        let (left, right) = (json!("10.0.0.1"), json!("10.0.0.2"));
        let found = Unequal { path: segments("/spec/clusterIP"), left: Some(&left), right: Some(&right) };
        let place = Place { kind: "Service", phase: Phase::Upgrade, helm: HelmVersion::Three, ..PLACE };
        assert!(allowed.find(&found, place).is_some());
        assert!(allowed.find(&found, Place { is_set: true, ..place }).is_none());
        assert!(allowed.find(&found, Place { helm: HelmVersion::Four, ..place }).is_none());
        assert!(allowed.find(&found, Place { phase: Phase::Uninstall, ..place }).is_none());
    }

    #[test]
    fn some_rows_depend_on_what_else_is_there() {
        let allowed = Allowed::parse(DOCUMENT).unwrap();
        let (one, two, labels) = (json!(1), json!(2), json!({"step": 1}));
        let replicas = Unequal { path: segments("/spec/replicas"), left: Some(&one), right: Some(&two) };
        let place = Place { kind: "Deployment", ..PLACE };
        assert!(allowed.find(&replicas, place).is_none());
        assert!(allowed.find(&replicas, Place { is_scaled: true, ..place }).is_some());
        let more = Unequal { path: segments("/spec/replicas"), left: Some(&two), right: Some(&one) };
        assert!(allowed.find(&more, Place { is_scaled: true, ..place }).is_none(), "ours is the smaller one");
        let empty = Unequal { path: segments("/data/empty"), left: None, right: Some(&one) };
        let place = Place { kind: "Secret", ..PLACE };
        assert!(allowed.find(&empty, place).is_none());
        assert!(allowed.find(&empty, Place { is_null: true, ..place }).is_some());
        let told = Unequal { path: segments("/info/description"), left: Some(&one), right: Some(&two) };
        let place = Place { kind: "Record", ..PLACE };
        assert!(allowed.find(&told, place).is_none());
        assert!(allowed.find(&told, Place { has_failed: true, ..place }).is_some());
        let label = Unequal { path: segments("/metadata/labels/step"), left: Some(&one), right: None };
        let place = Place { kind: "Job", ..PLACE };
        assert!(allowed.find(&label, place).is_none());
        assert!(allowed.find(&label, Place { pod_labels: Some(&labels), ..place }).is_some());
    }

    #[test]
    fn whole_objects_can_be_left_out() {
        let allowed = Allowed::parse(DOCUMENT).unwrap();
        assert!(allowed.leaves_out("Event"));
        assert!(!allowed.leaves_out("Pod"));
    }

    #[test]
    fn rounded_numbers_are_told_from_others() {
        assert!(same_numbers("max=1e+06;", "max=1000000;"));
        assert!(same_numbers("1.2345678e+07", "12345678"));
        assert!(!same_numbers("1000000", "1e+06"), "only helm's may be rounded");
        assert!(!same_numbers("1e+06", "1e+06.0") && !same_numbers("1e+06", "1000000.0"));
        assert!(same_numbers("9.007199254740993e+15", "9007199254740993"));
        assert!(same_numbers("1.2345678901234567e+19", "12345678901234567890"), "a double has no more digits");
        assert!(!same_numbers("1.2345678901234567e+19", "12345678901234587890"));
        assert!(!same_numbers("1e+06", "1000001"));
        assert!(!same_numbers("0644", "644"));
        assert!(!same_numbers("a 1e+06", "b 1000000"));
    }

    #[test]
    fn a_row_that_cannot_be_read_is_named() {
        let wrong = DOCUMENT.replace("only ours", "whatever");
        let error = format!("{:#}", Allowed::parse(&wrong).unwrap_err());
        assert!(error.contains("whatever") && error.contains("labels"), "{error}");
        assert!(Allowed::parse("# nothing").is_err());
    }
}
