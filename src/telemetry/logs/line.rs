//! How a line of the log looks. Pure.
//!
//! JSON has zap's keys first: `level`, `ts`, `logger`, `msg`. Text is for people: when, how bad, about which custom resource, what, and
//! the rest as `key=value`. Whatever a chart or a custom resource puts into a message, it cannot begin a line of its own: further
//! lines are indented, and control characters are written out.

use std::fmt::Write;
use std::str::FromStr;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::printable::is_unprintable;

/// The end of the names of fields that hold milliseconds.
const MILLISECONDS: &str = "Ms";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    Json,
    Console,
}

impl FromStr for Encoder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "json" => Ok(Encoder::Json),
            "console" => Ok(Encoder::Console),
            _ => Err("write json or console".to_owned()),
        }
    }
}

/// zap's. All are in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeEncoding {
    Epoch,
    Millis,
    Nano,
    Iso8601,
    Rfc3339,
    Rfc3339Nano,
}

impl FromStr for TimeEncoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "epoch" => Ok(TimeEncoding::Epoch),
            "millis" => Ok(TimeEncoding::Millis),
            // What controller-runtime's help says, and what it takes.
            "nano" | "nanos" => Ok(TimeEncoding::Nano),
            "iso8601" => Ok(TimeEncoding::Iso8601),
            "rfc3339" => Ok(TimeEncoding::Rfc3339),
            "rfc3339nano" => Ok(TimeEncoding::Rfc3339Nano),
            _ => Err("write epoch, millis, nano, iso8601, rfc3339 or rfc3339nano".to_owned()),
        }
    }
}

impl TimeEncoding {
    /// A number, or a text.
    fn encode(self, at: Timestamp) -> (String, bool) {
        match self {
            TimeEncoding::Epoch => {
                let microseconds = at.as_microsecond();
                (format!("{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000), false)
            }
            TimeEncoding::Millis => {
                let nanoseconds = at.as_nanosecond();
                (format!("{}.{:06}", nanoseconds / 1_000_000, nanoseconds % 1_000_000), false)
            }
            TimeEncoding::Nano => (at.as_nanosecond().to_string(), false),
            TimeEncoding::Iso8601 => (at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(), true),
            TimeEncoding::Rfc3339 => (at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), true),
            TimeEncoding::Rfc3339Nano => (at.to_string(), true),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Format {
    pub encoder: Encoder,
    pub time: TimeEncoding,
    pub has_colour: bool,
}

/// What happened.
#[derive(Debug)]
pub struct Line<'a> {
    pub at: Timestamp,
    pub level: &'static str,
    /// The part of the program that says it.
    pub logger: &'a str,
    pub message: &'a str,
    /// In the order in which they are shown.
    pub fields: &'a [(&'static str, Value)],
}

impl Format {
    /// With the end of the line.
    pub fn write(&self, line: &Line<'_>) -> String {
        match self.encoder {
            Encoder::Json => self.json(line),
            Encoder::Console => self.text(line),
        }
    }

    fn json(&self, line: &Line<'_>) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let (at, is_text) = self.time.encode(line.at);
        let at = if is_text { quoted(&at) } else { at };
        let (logger, message) = (quoted(line.logger), quoted(line.message));
        let mut out = format!("{{\"level\":\"{}\",\"ts\":{at},\"logger\":{logger},\"msg\":{message}", line.level);
        for (name, value) in line.fields {
            // Writing to a string cannot fail.
            let _ = write!(out, ",\"{name}\":{value}");
        }
        out.push('}');
        // Such a character stands in texts only, where it may be written so.
        let mut out = written_out(&out, |c, out| {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        });
        out.push('\n');
        out
    }

    fn text(&self, line: &Line<'_>) -> String {
        let find = |wanted: &str| line.fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| plain(value));
        let mut out = format!("{}  {:<5}  ", self.time.encode(line.at).0, line.level.to_ascii_uppercase());
        if self.has_colour {
            out = format!("\u{1b}[{}m{out}\u{1b}[0m", colour(line.level));
        }
        if matches!(line.level, "debug" | "trace") {
            let _ = write!(out, "[{}] ", line.logger);
        }
        let about = match (find("kind"), find("namespace"), find("name")) {
            (Some(kind), Some(namespace), Some(name)) => Some(format!("{kind} {namespace}/{name}")),
            (Some(kind), None, Some(name)) => Some(format!("{kind} {name}")),
            _ => None,
        };
        if let Some(about) = &about {
            let _ = write!(out, "{about}: ");
        }
        out.push_str(&harmless(line.message));
        let is_told = |name: &str| about.is_some() && ["kind", "namespace", "name"].contains(&name);
        for (position, (name, value)) in line.fields.iter().filter(|(name, _)| !is_told(name)).enumerate() {
            let space = if position == 0 { "  " } else { " " };
            let _ = match name.strip_suffix(MILLISECONDS) {
                Some(name) => write!(out, "{space}{name}={value}ms"),
                None => write!(out, "{space}{name}={}", plain(value)),
            };
        }
        out.push('\n');
        out
    }
}

fn colour(level: &str) -> u8 {
    match level {
        "error" => 31,
        "warn" => 33,
        "info" => 32,
        _ => 2,
    }
}

/// A value without quotes where it can do without.
fn plain(value: &Value) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:,+*@%".contains(c);
    match value {
        Value::String(text) if !text.is_empty() && text.chars().all(is_plain) => text.clone(),
        value => written_out(&value.to_string(), |c, out| out.extend(c.escape_default())),
    }
}

/// A message that cannot be taken for more than one, and cannot speak to a terminal.
fn harmless(message: &str) -> String {
    written_out(message.trim_end(), |c, out| match c {
        '\n' => out.push_str("\n    | "),
        '\t' => out.push(' '),
        c => out.extend(c.escape_default()),
    })
}

/// The text without what a terminal obeys: control characters, and marks that begin a line or turn the direction of writing.
fn written_out(text: &str, write_out: impl Fn(char, &mut String)) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_unprintable(c) {
            true => write_out(c, &mut out),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(encoder: Encoder, time: TimeEncoding, message: &str) -> String {
        let fields = [
            ("kind", json!("App")),
            ("namespace", json!("here")),
            ("name", json!("web")),
            ("revision", json!(2)),
            ("why", json!("a \"b\"")),
            ("renderMs", json!(12)),
        ];
        let at = "2026-03-04T05:06:07.008009Z".parse().unwrap();
        let line = Line { at, level: "info", logger: "reconcile", message, fields: &fields };
        Format { encoder, time, has_colour: false }.write(&line)
    }

    #[test]
    fn json_has_the_keys_of_zap() {
        let line = written(Encoder::Json, TimeEncoding::Iso8601, "done\n");
        let expected = r#"{"level":"info","ts":"2026-03-04T05:06:07.008Z","logger":"reconcile","msg":"done\n","kind":"App","namespace":"here","name":"web","revision":2,"why":"a \"b\"","renderMs":12}"#;
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn text_reads_from_left_to_right() {
        let line = written(Encoder::Console, TimeEncoding::Rfc3339, "done");
        assert_eq!(
            line,
            "2026-03-04T05:06:07Z  INFO   App here/web: done  revision=2 why=\"a \\\"b\\\"\" render=12ms\n"
        );
    }

    #[test]
    fn a_message_cannot_begin_a_line_or_speak_to_the_terminal() {
        let line =
            written(Encoder::Console, TimeEncoding::Rfc3339, "a\n2026-01-01T00:00:00Z  INFO  all is well\u{1b}[2J\r");
        assert!(line.contains("a\n    | 2026-01-01T00:00:00Z"), "{line}");
        assert!(line.contains("\\u{1b}[2J") && !line.contains(['\u{1b}', '\r']), "{line}");
        assert_eq!(written(Encoder::Json, TimeEncoding::Nano, "a\nb\u{1b}").lines().count(), 1);
    }

    #[test]
    fn fields_cannot_speak_to_the_terminal_either() {
        let strange = "a\u{9b}2J\u{202e}b\u{2028}c\u{1b}d";
        let fields = [("why", json!(strange)), ("more", json!([strange]))];
        for encoder in [Encoder::Console, Encoder::Json] {
            let format = Format { encoder, time: TimeEncoding::Rfc3339, has_colour: false };
            let line =
                Line { at: Timestamp::UNIX_EPOCH, level: "info", logger: "x", message: strange, fields: &fields };
            let line = format.write(&line);
            assert!(!line.contains(['\u{9b}', '\u{202e}', '\u{2028}', '\u{1b}']), "{line:?}");
            if encoder == Encoder::Json {
                let read: Value = serde_json::from_str(&line).unwrap();
                assert_eq!((&read["msg"], &read["more"][0]), (&json!(strange), &json!(strange)));
            }
        }
    }

    #[test]
    fn times_are_written_in_all_of_zaps_ways() {
        let ts = |time| {
            let line: Value = serde_json::from_str(&written(Encoder::Json, time, "")).unwrap();
            line["ts"].clone()
        };
        assert_eq!(ts(TimeEncoding::Epoch), json!(1772600767.008009));
        assert_eq!(ts(TimeEncoding::Millis), json!(1772600767008.009));
        assert_eq!(ts(TimeEncoding::Nano), json!(1772600767008009000_i64));
        assert_eq!(ts(TimeEncoding::Rfc3339Nano), json!("2026-03-04T05:06:07.008009Z"));
    }
}
