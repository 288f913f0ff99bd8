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
    let (directives, problem) = directives(asked, &environment);
    let (filter, handle) = reload::Layer::new(EnvFilter::new(&directives));
    let lines = Lines::new(format(flags)).with_filter(filter.and(filter::filter_fn(is_ours)));
    Registry::default().with(lines).with(super::traces::layer()).init();
    std::panic::set_hook(Box::new(tell_panic));
    for problem in problem.as_deref().into_iter().chain(super::traces::problem()) {
        tracing::warn!("{problem}");
    }
    Levels::new(handle, directives)
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

/// What is shown from the start, and what is wrong with `RUST_LOG`. A flag wins.
fn directives(asked: Option<Level>, environment: &str) -> (String, Option<String>) {
    let by_default = || level::directives(Level::Info);
    match asked {
        Some(level) => (level::directives(level), None),
        None if environment.trim().is_empty() => (by_default(), None),
        None => match EnvFilter::try_new(environment) {
            Ok(_) => (level::with_what_is_always_told(environment), None),
            Err(error) => (by_default(), Some(format!("RUST_LOG is not understood, so info is shown: {error}"))),
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
        let of = |asked, environment: &str| directives(asked, environment);
        assert!(of(None, "").0.starts_with("info,"));
        assert!(of(None, "warn,chartwright::reconcile=debug").0.starts_with("warn,chartwright::reconcile=debug,"));
        assert!(of(Some(Level::Error), "trace").0.starts_with("error,"));
        let (shown, problem) = of(None, "chartwright=loud");
        assert!(shown.starts_with("info,") && problem.unwrap().contains("RUST_LOG is not understood"));
    }
}
