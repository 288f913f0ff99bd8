//! What helm complains about, in the words that a person needs.
//!
//! Pure. helm says where and why, but buried: prefixes, hints for helm's own user, each template on the way to the one that
//! failed. Here remain the place where it failed, the file of the chart that led there, and the cause. What is not
//! recognised is passed on as helm said it, never dropped.

use super::schema;
use crate::chart::notes;

/// A condition's message is read in a terminal; more than this is scrolled past.
const LONGEST: usize = 2048;

const NO_TEMPLATE: &str = "the text that is given to `tpl` is no template: ";

/// A mistake in a template, whatever the values.
pub const NOT_YAML: &str = ": its output is not YAML: ";

/// What a complaint is about decides who can do something.
#[derive(Debug, PartialEq)]
pub enum Complaint {
    /// The values break the chart's schema: for whoever wrote them.
    Schema(String),
    /// helm cannot read the chart, whatever the values: for whoever made the chart.
    Chart(String),
    /// The chart does not render with these values.
    Template(String),
    /// It renders objects of a kind that nobody knows.
    UnknownKind { kind: String, api_version: String },
}

/// Reads helm's standard error. `chart` is the name of the chart, to tell its schema from those of its subcharts.
pub fn read(stderr: &str, chart: &str) -> Complaint {
    let text = error_of(stderr);
    if let Some(violations) = schema::violations(&text, chart) {
        return Complaint::Schema(shortened(&violations));
    }
    if let Some(broken) = schema::broken(&text, chart) {
        return Complaint::Chart(shortened(&broken));
    }
    if let Some(place_and_cause) = text.strip_prefix("parse error at (") {
        return Complaint::Chart(shortened(&place_and_cause.replacen("): ", ": ", 1)));
    }
    if is_about_the_chart(&text) {
        return Complaint::Chart(shortened(&text));
    }
    if let Some((kind, api_version)) = unknown_kind(&text) {
        return Complaint::UnknownKind { kind, api_version };
    }
    Complaint::Template(shortened(&template_error(&text)))
}

/// `unable to build kubernetes objects from release manifest: … no matches for kind "A" in version "g/v1"`
fn unknown_kind(text: &str) -> Option<(String, String)> {
    let built = text.strip_prefix("unable to build kubernetes objects from release manifest: ")?;
    let (_, rest) = built.split_once("no matches for kind \"")?;
    let (kind, rest) = rest.split_once("\" in version \"")?;
    let (api_version, _) = rest.split_once('"')?;
    Some((kind.to_owned(), api_version.to_owned()))
}

/// Only why a template failed: no place, no expression.
pub fn cause(stderr: &str) -> String {
    let text = error_of(stderr);
    if let Some((_, cause)) = text.strip_prefix("execution error at (").and_then(|rest| rest.split_once("): ")) {
        return shortened(cause);
    }
    let Some(trace) = traced(&text).or_else(|| chained(&text)) else { return shortened(&text) };
    let cause = trace.cause();
    shortened(cause.strip_prefix(NO_TEMPLATE).unwrap_or(&cause))
}

/// What helm says when it does something else than render.
pub fn in_one_line(stderr: &str) -> String {
    let text = error_of(stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    shortened(&lines.collect::<Vec<_>>().join(" "))
}

/// From the line that begins with `Error: ` on; before it are warnings, after it a hint to use `--debug`.
fn error_of(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().collect();
    let start = lines.iter().position(|line| line.starts_with("Error: ")).unwrap_or(0);
    let kept: Vec<&str> = lines[start..].iter().filter(|line| !is_noise(line)).copied().collect();
    let mut text = kept.join("\n").trim().to_owned();
    for prefix in ["Error: ", "INSTALLATION FAILED: ", "UPGRADE FAILED: "] {
        text = text.strip_prefix(prefix).unwrap_or(&text).to_owned();
    }
    if text.is_empty() { "helm failed and did not say why".to_owned() } else { text }
}

fn is_noise(line: &str) -> bool {
    ["WARNING: ", "Use --debug flag", "level="].iter().any(|start| line.starts_with(start)) || is_log_line(line)
}

/// `coalesce.go:237: warning: …`
fn is_log_line(line: &str) -> bool {
    let Some((file, rest)) = line.split_once(".go:") else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    file.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && digits > 0 && rest[digits..].starts_with(": ")
}

fn is_about_the_chart(text: &str) -> bool {
    let starts = ["cannot load ", "validation: ", "error unpacking ", "Chart.yaml file is missing", "library charts"];
    starts.iter().any(|start| text.starts_with(start))
        || text.contains("missing in charts/ directory")
        || text.contains("is not valid against metaschema")
}

fn template_error(text: &str) -> String {
    if let Some(fault) = text.strip_prefix("YAML parse error on ") {
        let (file, cause) = fault.split_once(": ").unwrap_or((fault, ""));
        let cause = cause.trim_start_matches("error converting YAML to JSON: ").trim_start_matches("yaml: ");
        return format!("{file}{NOT_YAML}{cause}");
    }
    let mut rest = text;
    let mut place = None;
    while let Some((inner, cause)) = rest.strip_prefix("execution error at (").and_then(|r| r.split_once("): ")) {
        (place, rest) = (Some(inner), cause);
    }
    if let Some(place) = place {
        // helm names only the template that it began with, so the line is that of an `include`.
        let place = notes::behind(place).unwrap_or_else(|| place.to_owned());
        return format!("{place}: {rest}");
    }
    match traced(text).or_else(|| chained(text)) {
        Some(trace) => trace.in_words(),
        None => text.to_owned(),
    }
}

/// The way from a file of the chart to the expression that failed.
struct Trace<'a> {
    frames: Vec<Frame<'a>>,
    cause: String,
}

struct Frame<'a> {
    /// `app/templates/a.yaml:2:6`
    place: &'a str,
    /// `<.Values.a.b>`
    expression: &'a str,
}

impl Trace<'_> {
    fn in_words(&self) -> String {
        // The chart has no such file: its notes begin with the next frame.
        let frames = match self.frames.as_slice() {
            [added, rest @ ..] if !rest.is_empty() && notes::behind(added.place).is_some() => rest,
            frames => frames,
        };
        let [first, .., last] = frames else {
            return match frames {
                [only] => match notes::behind(only.place) {
                    Some(notes) => format!("{notes}: {}", self.cause()),
                    None => format!("{}: at {}: {}", only.place, only.expression, self.cause()),
                },
                _ => self.cause(),
            };
        };
        let (place, expression, cause) = (last.place, last.expression, self.cause());
        match place.starts_with("gotpl:") {
            true => format!("{}: in text that is given to `tpl`, at {expression}: {cause}", first.place),
            false => format!("{place} (included from {}): at {expression}: {cause}", first.place),
        }
    }

    fn cause(&self) -> String {
        match self.cause.rsplit_once(": template: gotpl:") {
            Some((before, after)) if before.contains("cannot parse template ") => {
                let cause = after.split_once(": ").map_or(after, |(_, cause)| cause);
                format!("{NO_TEMPLATE}{cause}")
            }
            _ => self.cause.clone(),
        }
    }
}

/// All in one line: `template: FILE:2:6: executing "NAME" at <EXPRESSION>: error calling include: template: …`.
fn chained(text: &str) -> Option<Trace<'_>> {
    let mut trace = Trace { frames: vec![], cause: String::new() };
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("template: ") {
        match frame(after) {
            Some((frame, cause)) => {
                trace.frames.push(frame);
                trace.cause = cause.to_owned();
                rest = cause;
            }
            None => rest = after,
        }
    }
    (!trace.frames.is_empty()).then_some(trace)
}

fn frame(text: &str) -> Option<(Frame<'_>, &str)> {
    let (place, rest) = text.split_once(": executing \"")?;
    let (_, rest) = rest.split_once("\" at <")?;
    let end = rest.find(">: ")?;
    let expression = &text[text.len() - rest.len() - 1..text.len() - rest.len() + end + 1];
    is_place(place).then_some((Frame { place, expression }, &rest[end + 3..]))
}

/// Helm 4's way: the place in a line of its own, what it executes below it, the cause below that.
fn traced(text: &str) -> Option<Trace<'_>> {
    let mut trace = Trace { frames: vec![], cause: String::new() };
    let mut lines = text.lines().peekable();
    while let Some(place) = lines.next_if(|line| is_place(line)) {
        let executing = lines.next()?.strip_prefix("  executing \"")?;
        let (_, expression) = executing.split_once("\" at ")?;
        let cause: Vec<&str> = std::iter::from_fn(|| lines.next_if(|line| !is_place(line))).map(str::trim).collect();
        trace.cause = cause.join("\n");
        trace.frames.push(Frame { place, expression: expression.trim_end_matches(':') });
    }
    (!trace.frames.is_empty() && lines.next().is_none()).then_some(trace)
}

/// `file:line:column`
fn is_place(text: &str) -> bool {
    let mut parts = text.rsplitn(3, ':');
    let mut number = || parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    number() && number() && parts.next().is_some_and(|file| !file.is_empty() && !file.contains('\n'))
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let mut end = LONGEST - '…'.len_utf8();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests;
