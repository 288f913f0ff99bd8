//! The text format that Prometheus reads (version 0.0.4), written as Go's library writes it. Pure.

use std::fmt::Write;

use super::family::Name;

/// What a client is told that it gets.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Default)]
pub struct Text(String);

impl Text {
    pub fn into_string(self) -> String {
        self.0
    }

    /// The lines before the samples of a name.
    pub fn family<const N: usize>(&mut self, about: &Name<N>, kind: &str) {
        let help = about.help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {} {help}\n# TYPE {} {kind}\n", about.name, about.name));
    }

    pub fn sample<const N: usize>(&mut self, about: &Name<N>, labels: &[String; N], value: f64) {
        self.series("", about, labels, None, value);
    }

    /// A gauge whose values were just looked up.
    pub fn gauge<const N: usize>(&mut self, about: &Name<N>, rows: impl IntoIterator<Item = ([String; N], f64)>) {
        self.values(about, "gauge", rows);
    }

    /// The same for what only grows.
    pub fn counter<const N: usize>(&mut self, about: &Name<N>, rows: impl IntoIterator<Item = ([String; N], f64)>) {
        self.values(about, "counter", rows);
    }

    fn values<const N: usize>(
        &mut self,
        about: &Name<N>,
        kind: &str,
        rows: impl IntoIterator<Item = ([String; N], f64)>,
    ) {
        self.family(about, kind);
        for (labels, value) in rows {
            self.sample(about, &labels, value);
        }
    }

    /// # Arguments
    /// `counts`: of each bucket alone, the infinite one last.
    pub fn histogram<const N: usize>(
        &mut self,
        about: &Name<N>,
        labels: &[String; N],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let mut total = 0;
        for (count, bound) in counts.iter().zip(bounds.iter().chain([&f64::INFINITY])) {
            total += count;
            self.series("_bucket", about, labels, Some(*bound), total as f64);
        }
        self.series("_sum", about, labels, None, sum);
        self.series("_count", about, labels, None, total as f64);
    }

    fn series<const N: usize>(
        &mut self,
        suffix: &str,
        about: &Name<N>,
        labels: &[String; N],
        bound: Option<f64>,
        value: f64,
    ) {
        self.line(format_args!("{}{suffix}", about.name));
        let own = about.labels.iter().zip(labels).map(|(name, value)| (*name, escaped(value)));
        let mut opening = '{';
        for (name, value) in own.chain(bound.map(|bound| ("le", number(bound)))) {
            self.line(format_args!("{opening}{name}=\"{value}\""));
            opening = ',';
        }
        let closing = if opening == ',' { "}" } else { "" };
        self.line(format_args!("{closing} {}\n", number(value)));
    }

    fn line(&mut self, part: std::fmt::Arguments<'_>) {
        // Nothing can go wrong: it is memory.
        let _ = self.0.write_fmt(part);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// As Go writes it, so that bounds are the same texts as those of other operators. Only large numbers are left whole: a time is
/// easier to read so.
fn number(value: f64) -> String {
    if value == f64::INFINITY {
        return "+Inf".to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    match exponent {
        -4..21 => format!("{value}"),
        _ => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (1e-8, "1e-08"),
            (9.999999999999999e-6, "9.999999999999999e-06"),
            (1763437000.0, "1763437000"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn what_would_end_a_label_or_a_line_is_escaped() {
        let about = Name { name: "a", help: "One\\two\nthree.", labels: ["who"] };
        let mut text = Text::default();
        text.gauge(&about, [(["a\"b\\c\nd".to_owned()], 1.5)]);
        assert_eq!(
            text.into_string(),
            "# HELP a One\\\\two\\nthree.\n# TYPE a gauge\na{who=\"a\\\"b\\\\c\\nd\"} 1.5\n"
        );
    }
}
