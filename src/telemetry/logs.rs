//! Logs on standard error: one line for each thing that happened, as text for people or as JSON with zap's keys.
//!
//! Only this program speaks, at every level. The libraries below it print whole requests and answers, with tokens and with what
//! Secrets hold; what matters of it is told again by us, in words. So the list of who may speak has one name on it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`level`] | how much is shown |
//! | [`line`](mod@line) | how a line looks |
//! | [`layer`] | what is under way, put into each line |
//! | [`control`] | how the level is changed while the operator runs |

pub mod control;
pub mod layer;
pub mod level;
pub mod line;

use std::io::IsTerminal;
use std::panic::PanicHookInfo;

use tracing::Metadata;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, filter, reload};

use crate::cli::run::flags;
use control::Levels;
use layer::Lines;
use level::{Level, PANIC};
use line::{Encoder, Format, TimeEncoding};

/// Starts logging as the flags say. Where they do not say how much, `RUST_LOG` does.
pub fn start(flags: &flags::Logs) -> Levels {
    let asked = flags.zap_log_level.or(flags.zap_devel.then_some(Level::Debug));
    let environment = std::env::var("RUST_LOG").unwrap_or_default();
    let (started_with, problem) = directives(asked, &environment);
    let (filter, handle) = reload::Layer::new(EnvFilter::new(&started_with.0));
    let lines = Lines::new(format(flags)).with_filter(filter.and(filter::filter_fn(is_ours)));
    Registry::default().with(lines).with(super::traces::layer()).init();
    std::panic::set_hook(Box::new(tell_panic));
    for problem in problem.as_deref().into_iter().chain(super::traces::problem()) {
        tracing::warn!("{problem}");
    }
    Levels::new(handle, started_with)
}

/// Whether programs read the lines, and no person does.
pub fn is_json(flags: &flags::Logs) -> bool {
    format(flags).encoder == Encoder::Json && !std::io::stderr().is_terminal()
}

fn format(flags: &flags::Logs) -> Format {
    let is_terminal = std::io::stderr().is_terminal();
    let by_default = if is_terminal || flags.zap_devel { Encoder::Console } else { Encoder::Json };
    Format {
        encoder: flags.zap_encoder.unwrap_or(by_default),
        time: flags.zap_time_encoding.unwrap_or(TimeEncoding::Iso8601),
        has_colour: is_terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()),
    }
}

/// What is shown from the start and the most of it, and what is wrong with `RUST_LOG`. A flag wins.
///
/// The most is that of the directives as they were written: what is always told would raise it.
fn directives(asked: Option<Level>, environment: &str) -> ((String, Level), Option<String>) {
    let of = |level| (level::directives(level), level);
    match asked {
        Some(level) => (of(level), None),
        None if environment.trim().is_empty() => (of(Level::Info), None),
        None => match EnvFilter::try_new(environment) {
            Ok(filter) => {
                let most = Level::of(filter.max_level_hint());
                ((level::with_what_is_always_told(environment), most), None)
            }
            Err(error) => (of(Level::Info), Some(format!("RUST_LOG is not understood, so info is shown: {error}"))),
        },
    }
}

/// Whether this program says it.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    target == "chartwright" || target.starts_with("chartwright::")
}

/// A panic is a line as everything else, so that whoever reads JSON can read it. A message that was put together may hold anything,
/// so only fixed ones are told; the place says the rest.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("its message may hold values");
    tracing::error!(target: PANIC, place, "this is a defect of the operator: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_wins_over_the_environment_and_what_is_not_understood_over_nothing() {
        let of = |asked, environment: &str| {
            let ((shown, most), problem) = directives(asked, environment);
            (shown, most, problem)
        };
        let starts = |(shown, most, _): (String, Level, _), with: &str| shown.starts_with(with).then_some(most);
        assert_eq!(starts(of(None, ""), "info,"), Some(Level::Info));
        let parts = "warn,chartwright::reconcile=debug";
        assert_eq!(starts(of(None, parts), "warn,chartwright::reconcile=debug,"), Some(Level::Debug));
        assert_eq!(starts(of(None, "error"), "error,"), Some(Level::Error));
        assert_eq!(starts(of(Some(Level::Error), "trace"), "error,"), Some(Level::Error));
        let (shown, most, problem) = of(None, "chartwright=loud");
        assert!(shown.starts_with("info,") && problem.unwrap().contains("RUST_LOG is not understood"));
        assert_eq!(most, Level::Info);
    }
}
