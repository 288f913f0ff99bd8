//! Logs on standard error: text on a terminal, JSON lines elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// What the client libraries say is told again by us, in words, where it matters. They also print whole answers of the API server,
/// and values that came from Secrets in them. So they stay silent, whatever `RUST_LOG` says.
const SILENT: &str = "kube_client=off,kube_runtime=off";

/// Starts logging. `RUST_LOG` changes what is shown.
pub fn start() {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = EnvFilter::try_new(directives(&asked)).unwrap_or_else(|_| EnvFilter::new(directives("")));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        logs.init();
    } else {
        logs.json().flatten_event(true).init();
    }
}

fn directives(asked: &str) -> String {
    let asked: Vec<&str> =
        asked.split(',').map(str::trim).filter(|it| !it.is_empty() && !it.contains("kube_")).collect();
    let asked = if asked.is_empty() { "info".to_owned() } else { asked.join(",") };
    format!("{asked},{SILENT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_makes_the_client_talk() {
        for (asked, expected) in [
            ("", "info"),
            ("debug", "debug"),
            ("warn,chartwright=debug", "warn,chartwright=debug"),
            ("trace,kube_client::client=trace, kube_client=debug", "trace"),
        ] {
            assert_eq!(directives(asked), format!("{expected},{SILENT}"));
        }
    }
}
