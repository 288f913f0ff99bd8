//! Logs on standard error: text on a terminal, JSON lines elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// What the client libraries say is told again by us, in words, where it matters.
const DEFAULT: &str = "info,kube_client=off,kube_runtime=off";

/// Starts logging. `RUST_LOG` changes what is shown.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        logs.init();
    } else {
        logs.json().flatten_event(true).init();
    }
}
