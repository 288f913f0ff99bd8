//! How much is shown.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;

/// Where panics are told.
pub const PANIC: &str = "chartwright::panic";
/// Where a change of the level is told: at every level, since whoever reads on has to know why there is more or less.
pub const CHANGE: &str = "chartwright::level";
/// Where it is told why the operator ended.
pub const LAST: &str = "chartwright::end";

/// From the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Panic,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    const ALL: [Level; 6] = [Level::Panic, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];

    pub fn as_str(self) -> &'static str {
        match self {
            Level::Panic => "panic",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }

    /// The most that a filter shows.
    pub fn of(filter: Option<LevelFilter>) -> Self {
        match filter {
            Some(LevelFilter::OFF) => Level::Panic,
            Some(LevelFilter::ERROR) => Level::Error,
            Some(LevelFilter::WARN) => Level::Warn,
            Some(LevelFilter::INFO) => Level::Info,
            Some(LevelFilter::DEBUG) => Level::Debug,
            _ => Level::Trace,
        }
    }

    pub fn more(self) -> Self {
        Level::ALL.into_iter().find(|level| *level > self).unwrap_or(Level::Trace)
    }

    pub fn less(self) -> Self {
        Level::ALL.into_iter().rev().find(|level| *level < self).unwrap_or(Level::Panic)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// As zap reads it: a number is how much more than info.
impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        let named = Level::ALL.into_iter().find(|level| level.as_str() == text);
        let numbered = || match text.parse::<i64>() {
            Ok(1) => Some(Level::Debug),
            Ok(2..) => Some(Level::Trace),
            _ => None,
        };
        named.or_else(numbered).ok_or_else(|| {
            "write debug, info, error or panic, or a number: 1 is debug, more is trace; warn and trace are understood too"
                .to_owned()
        })
    }
}

/// The filter that shows so much.
pub fn directives(level: Level) -> String {
    with_what_is_always_told(if level == Level::Panic { "off" } else { level.as_str() })
}

pub fn with_what_is_always_told(directives: &str) -> String {
    format!("{directives},{PANIC}=error,{CHANGE}=info,{LAST}=error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_zap_reads_them() {
        let known = [("debug", Level::Debug), ("INFO", Level::Info), ("error", Level::Error), ("panic", Level::Panic)];
        for (text, level) in known.into_iter().chain([("1", Level::Debug), ("2", Level::Trace), ("10", Level::Trace)]) {
            assert_eq!(text.parse(), Ok(level));
        }
        for text in ["", "0", "-1", "loud", "1.5"] {
            assert!(text.parse::<Level>().is_err(), "{text}");
        }
    }

    #[test]
    fn more_and_less_end_at_the_ends() {
        assert_eq!((Level::Info.more(), Level::Trace.more()), (Level::Debug, Level::Trace));
        assert_eq!((Level::Info.less(), Level::Panic.less()), (Level::Warn, Level::Panic));
    }
}
