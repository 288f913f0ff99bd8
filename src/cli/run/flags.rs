//! The flags of `chartwright run`: operator-sdk's, by their names and with their meaning, and ours.
//!
//! It reads them and refuses what cannot be meant. Of a flag that is given twice the last one counts: an image gives some, and
//! manifests add theirs. Older names work, with a warning, but not beside the newer ones. What flags lead to is decided elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::{Project, Usage};
use crate::leader::candidate::Pace;
use crate::telemetry::logs::level::Level;
use crate::telemetry::logs::line::{Encoder, TimeEncoding};
use crate::watches::duration as durations;
use crate::wishes;

#[derive(Debug, clap::Args)]
#[command(args_override_self = true, next_line_help = true)]
pub struct Args {
    #[command(flatten)]
    pub project: Project,
    #[command(flatten)]
    pub work: Work,
    #[command(flatten)]
    pub leader: Leader,
    #[command(flatten)]
    pub metrics: Metrics,
    #[command(flatten)]
    pub health: Health,
    #[command(flatten)]
    pub logs: Logs,
}

/// How custom resources are worked on.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Work")]
pub struct Work {
    /// How often to look although nothing changed, as in 1m; 0 is never
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = any_duration)]
    pub reconcile_period: Duration,
    /// How many resources of a kind at once [default: what helm and the API server can take]
    #[arg(long, value_name = "NUMBER")]
    pub max_concurrent_reconciles: Option<usize>,
    /// Which namespaces are watched, as in a,b; none is all
    #[arg(long, value_name = "NAMES", env = "WATCH_NAMESPACE", default_value = "", hide_default_value = true)]
    pub watch_namespace: String,
    /// Show **** in place of overridden values in events
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool, hide_default_value = true)]
    pub suppress_override_values: bool,
    /// How long a render may take
    #[arg(long, value_name = "DURATION", env = "CHARTWRIGHT_RENDER_TIMEOUT", default_value = "60s", value_parser = some_duration)]
    pub render_timeout: Duration,
}

/// Which of several operators works.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct Leader {
    /// Work only while this operator holds the Lease
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool, hide_default_value = true)]
    pub leader_elect: bool,
    /// The name of the Lease
    #[arg(long, value_name = "NAME")]
    pub leader_election_id: Option<String>,
    /// The namespace of the Lease [default: the operator's own]
    #[arg(long, value_name = "NAME")]
    pub leader_election_namespace: Option<String>,
    /// The older name of --leader-elect
    #[arg(long, hide = true, conflicts_with = "leader_elect", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool)]
    pub enable_leader_election: Option<bool>,
    /// How long a Lease that is not renewed belongs to its holder, in whole seconds
    #[arg(long, hide = true, value_name = "DURATION", default_value = "15s", value_parser = any_duration)]
    pub leader_elect_lease_duration: Duration,
    /// A holder that cannot renew the Lease for so long gives up
    #[arg(long, hide = true, value_name = "DURATION", default_value = "10s", value_parser = any_duration)]
    pub leader_elect_renew_deadline: Duration,
    /// How often the Lease is renewed
    #[arg(long, hide = true, value_name = "DURATION", default_value = "2s", value_parser = any_duration)]
    pub leader_elect_retry_period: Duration,
}

impl Leader {
    pub fn pace(&self) -> Pace {
        Pace {
            lease: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry: self.leader_elect_retry_period,
        }
    }
}

/// Where metrics are served, and to whom.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Metrics")]
pub struct Metrics {
    /// Where metrics are served; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: String,
    /// Serve metrics by TLS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool, hide_default_value = true)]
    pub metrics_secure: bool,
    /// Serve metrics only to those who may read them by RBAC; needs --metrics-secure
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool, hide_default_value = true)]
    pub metrics_require_rbac: bool,
    /// A directory with tls.crt and tls.key, read again on a change [default: one of its own]
    #[arg(long, value_name = "DIRECTORY")]
    pub metrics_cert_path: Option<PathBuf>,
    /// Offer HTTP/2 for metrics, where they are served by TLS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool, hide_default_value = true)]
    pub enable_http2: bool,
    /// The older name of --metrics-bind-address
    #[arg(long, hide = true, conflicts_with = "metrics_bind_address", value_name = "ADDRESS")]
    pub metrics_addr: Option<String>,
}

/// Where the operator tells how it is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Health")]
pub struct Health {
    /// Where /healthz and /readyz are served; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: String,
    /// How long a watch or a queue may be stuck before /healthz fails
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = patience)]
    pub liveness_patience: Duration,
}

/// What the log shows, and how.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct Logs {
    /// Text for people, and more of it: the same as --zap-encoder=console --zap-log-level=debug
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool, hide_default_value = true)]
    pub zap_devel: bool,
    /// json or console [default: console on a terminal, json elsewhere]
    #[arg(long, value_name = "ENCODER")]
    pub zap_encoder: Option<Encoder>,
    /// debug, info, error, panic, or a number from 1 on [default: RUST_LOG, or info]
    #[arg(long, value_name = "LEVEL")]
    pub zap_log_level: Option<Level>,
    /// info, error or panic; there are no stack traces, so it changes nothing
    #[arg(long, value_name = "LEVEL")]
    pub zap_stacktrace_level: Option<Level>,
    /// epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano [default: iso8601]
    #[arg(long, value_name = "ENCODING")]
    pub zap_time_encoding: Option<TimeEncoding>,
}

impl Args {
    /// Puts older names in the place of the newer ones, and refuses what cannot be meant. `operator_name` is what OPERATOR_NAME
    /// says. Returns what a person should read.
    pub fn settled(mut self, operator_name: Option<String>) -> Result<(Self, Vec<String>), Usage> {
        let mut warnings = vec![];
        if let Some(address) = self.metrics.metrics_addr.take() {
            warnings.push("--metrics-addr is deprecated: write --metrics-bind-address".to_owned());
            self.metrics.metrics_bind_address = address;
        }
        if let Some(elects) = self.leader.enable_leader_election.take() {
            warnings.push("--enable-leader-election is deprecated: write --leader-elect".to_owned());
            self.leader.leader_elect = elects;
        }
        if let Some(name) = operator_name.filter(|name| !name.is_empty()) {
            let is_used = self.leader.leader_election_id.is_none();
            let what = if is_used { "it is the id of the leader election" } else { "it is ignored" };
            warnings.push(format!(
                "the environment variable OPERATOR_NAME is deprecated, {what}: write --leader-election-id"
            ));
            self.leader.leader_election_id.get_or_insert(name);
        }
        if wishes::is_too_short(self.work.reconcile_period) {
            warnings.push(format!("--reconcile-period: {}", wishes::TOO_SHORT));
        }
        if self.metrics.metrics_require_rbac && !self.metrics.metrics_secure {
            let why = "without TLS anybody on the way could read the token";
            return Err(Usage(format!("--metrics-secure is required when --metrics-require-rbac is present: {why}")));
        }
        if self.metrics.metrics_cert_path.is_some() && !self.metrics.metrics_secure {
            warnings.push("--metrics-cert-path is ignored without --metrics-secure".to_owned());
        }
        Ok((self, warnings))
    }
}

/// As Go reads it.
fn go_bool(text: &str) -> Result<bool, String> {
    wishes::boolean(text).ok_or_else(|| "write true or false".to_owned())
}

fn any_duration(text: &str) -> Result<Duration, String> {
    durations::parse(text).map_err(|error| error.to_string())
}

fn some_duration(text: &str) -> Result<Duration, String> {
    match any_duration(text)? {
        duration if duration.is_zero() => Err("helm needs some time".to_owned()),
        duration => Ok(duration),
    }
}

fn patience(text: &str) -> Result<Duration, String> {
    match any_duration(text)? {
        duration if duration.is_zero() => Err("everything is stuck for a moment".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Command {
        Run(Args),
    }

    /// As if a person or a manifest wrote it, behind what the image gives.
    fn parse(more: &[&str]) -> Result<(Args, Vec<String>), String> {
        let given = ["chartwright", "run", "--watches-file=./watches.yaml"].iter().chain(more);
        let Program { command: Command::Run(args) } =
            Program::try_parse_from(given).map_err(|error| error.to_string())?;
        args.settled(None).map_err(|error| error.to_string())
    }

    fn parsed(more: &[&str]) -> Args {
        parse(more).unwrap().0
    }

    fn refused(more: &[&str]) -> String {
        parse(more).unwrap_err()
    }

    #[test]
    fn the_help_is_grouped_fits_100_columns_and_hides_older_names() {
        let mut program = Program::command();
        let help = program.find_subcommand_mut("run").unwrap().render_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        let groups: Vec<&str> = help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
        assert_eq!(groups, ["Options:", "Work:", "Leader election:", "Metrics:", "Health:", "Logs:"]);
        assert!(!help.contains("--metrics-addr") && !help.contains("--enable-leader-election"), "{help}");
    }

    #[test]
    fn of_a_flag_that_is_given_twice_the_last_one_counts() {
        let args = parsed(&["--watches-file=other.yaml", "--leader-elect", "--leader-elect=false"]);
        assert_eq!(args.project.watches_file, PathBuf::from("other.yaml"));
        assert!(!args.leader.leader_elect);
        let args = parsed(&["--metrics-bind-address=:1", "--metrics-bind-address", ":2"]);
        assert_eq!(args.metrics.metrics_bind_address, ":2");
    }

    #[test]
    fn booleans_are_written_as_in_go() {
        for (text, expected) in [("--leader-elect", true), ("--leader-elect=T", true), ("--leader-elect=0", false)] {
            assert_eq!(parsed(&[text]).leader.leader_elect, expected, "{text}");
        }
        assert!(refused(&["--leader-elect=yes"]).contains("write true or false"));
    }

    #[test]
    fn older_names_work_with_a_warning_and_not_beside_newer_ones() {
        let (args, warnings) = parse(&["--metrics-addr=127.0.0.1:8080", "--enable-leader-election"]).unwrap();
        assert_eq!((args.metrics.metrics_bind_address.as_str(), args.leader.leader_elect), ("127.0.0.1:8080", true));
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("write --metrics-bind-address"), "{warnings:?}");
        assert!(!parsed(&["--enable-leader-election=false"]).leader.leader_elect);
        for both in [
            ["--metrics-addr=:1", "--metrics-bind-address=:8080"],
            ["--enable-leader-election", "--leader-elect=false"],
        ] {
            assert!(refused(&both).contains("cannot be used with"), "{both:?}");
        }
    }

    #[test]
    fn the_operators_name_is_the_id_where_no_flag_says_it() {
        let of = |more: &[&str]| {
            let (args, warnings) = parsed(more).settled(Some("old".into())).unwrap();
            (args.leader.leader_election_id.unwrap(), warnings.join(""))
        };
        let (id, warning) = of(&[]);
        assert!(id == "old" && warning.contains("it is the id"), "{warning}");
        let (id, warning) = of(&["--leader-election-id=new"]);
        assert!(id == "new" && warning.contains("it is ignored"), "{warning}");
    }

    #[test]
    fn a_scrape_that_is_checked_needs_tls() {
        let refused = refused(&["--metrics-require-rbac"]);
        assert!(
            refused.starts_with("--metrics-secure is required when --metrics-require-rbac is present"),
            "{refused}"
        );
        assert!(parsed(&["--metrics-require-rbac", "--metrics-secure"]).metrics.metrics_require_rbac);
    }

    #[test]
    fn values_for_the_log_that_do_not_exist_are_refused() {
        for good in ["debug", "Info", "panic", "1", "7"] {
            assert!(parsed(&["--zap-log-level", good]).logs.zap_log_level.is_some());
        }
        for bad in [
            "--zap-log-level=loud",
            "--zap-log-level=0",
            "--zap-log-level=-1",
            "--zap-encoder=xml",
            "--zap-stacktrace-level=loud",
            "--zap-time-encoding=unix",
        ] {
            let refused = refused(&[bad]);
            assert!(refused.contains("invalid value") && refused.contains("write "), "{refused}");
        }
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [("2s", 2_000), ("90s", 90_000), ("1m30s", 90_000), ("500ms", 500), ("1h", 3_600_000)] {
            assert_eq!(some_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "2", "s", "1x", "1m30", "-1s", "99999999999999999999", "18446744073709551615h"] {
            assert!(some_duration(text).is_err(), "{text}");
        }
    }
}
