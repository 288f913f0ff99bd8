//! Logs on standard error: text on a terminal, JSON lines elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging. `RUST_LOG` changes what is shown.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        logs.init();
    } else {
        logs.json().flatten_event(true).init();
    }
}
