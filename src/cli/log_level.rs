//! `chartwright log-level`: how much a running operator tells.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};

use super::output;
use crate::telemetry::logs::control::{self, AS_STARTED};
use crate::telemetry::logs::level::Level;
use crate::watches::duration as durations;
use crate::workplace;

/// Show or change how much the running operator logs
///
/// It speaks to an operator on the same machine that runs as the same user. In a cluster:
/// kubectl exec deploy/NAME -- chartwright log-level debug --for 10m
#[derive(Debug, clap::Args)]
pub struct Args {
    /// panic, error, warn, info, debug or trace; `default` is what it was started with [default: only show it]
    #[arg(value_name = "LEVEL", value_parser = wanted)]
    level: Option<String>,
    /// For how long, as in 10m
    #[arg(long = "for", value_name = "DURATION", requires = "level", value_parser = some_time)]
    limit: Option<Duration>,
    /// The number of the operator's process, where several run
    #[arg(long, value_name = "NUMBER")]
    pid: Option<u32>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (process, place) = operator(args.pid)?;
    let limit = args.limit.map(|limit| limit.as_secs().max(1).to_string()).unwrap_or_default();
    let question = format!("{} {limit}", args.level.unwrap_or_default());
    let answer = control::ask(&place, question.trim()).await;
    match answer.with_context(|| format!("cannot speak to the operator (process {process})"))? {
        Ok(level) => output::print(&format!("{level}\n"))?,
        Err(problem) => bail!("the operator (process {process}) refuses: {problem}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn operator(pid: Option<u32>) -> anyhow::Result<(u32, PathBuf)> {
    let living = workplace::living().context("cannot look for operators")?;
    let is_operator = |(_, place): &(u32, PathBuf)| control::socket_in(place).exists();
    let is_meant = |(process, _): &(u32, PathBuf)| pid.is_none_or(|pid| pid == *process);
    let mut found: Vec<_> = living.into_iter().filter(is_operator).filter(is_meant).collect();
    match (found.pop(), found.is_empty()) {
        (Some(operator), true) => Ok(operator),
        (Some(operator), false) => {
            found.push(operator);
            let numbers: Vec<_> = found.iter().map(|(process, _)| process.to_string()).collect();
            bail!("several operators run here: name one with --pid, of {}", numbers.join(", "))
        }
        (None, _) => bail!(
            "no operator runs here as this user; run this where it runs: kubectl exec deploy/NAME -- chartwright log-level"
        ),
    }
}

fn wanted(text: &str) -> Result<String, String> {
    match text {
        AS_STARTED => Ok(text.to_owned()),
        _ => match text.parse::<Level>() {
            Ok(level) => Ok(level.to_string()),
            Err(_) => Err(format!(
                "write panic, error, warn, info, debug or trace, or `{AS_STARTED}`, which is what it was started with"
            )),
        },
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    let duration = durations::parse(text).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("write some time, as in 10m".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_none_is_answered_with_all_that_are() {
        let said = wanted("loud").unwrap_err();
        for word in ["panic", "error", "warn", "info", "debug", "trace", AS_STARTED] {
            assert!(said.contains(word) && wanted(word).is_ok(), "{word}: {said}");
        }
    }
}
