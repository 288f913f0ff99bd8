//! What the walk asks the cluster, and how it waits.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::http;
use crate::checkout;

/// Reads go through `kubectl proxy`, so that looking often costs little.
#[derive(Clone, Copy)]
pub struct Cluster {
    pub proxy: SocketAddr,
}

impl Cluster {
    pub fn get(&self, path: &str) -> Result<Value> {
        let body = http::get(self.proxy, path).with_context(|| format!("GET {path}"))?;
        serde_json::from_str(&body).with_context(|| format!("GET {path}: {body}"))
    }

    /// Fails while the API server is not ready.
    pub fn ready(&self) -> Result<()> {
        http::get(self.proxy, "/readyz").map(|_| ())
    }

    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        let items = self.get(path)?["items"].take();
        serde_json::from_value(items).with_context(|| format!("GET {path} is no list"))
    }
}

/// What a program prints, run in the checkout.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    run_in(&checkout(), program, args)
}

/// What a program prints, run in a directory.
///
/// # Errors
/// It cannot be run or says that it failed; the message has the end of what it printed.
pub fn run_in(dir: &Path, program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        bail!("{program} {}: {}", args.join(" "), lines[lines.len().saturating_sub(5)..].join("; "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub fn kubectl(args: &[&str]) -> Result<String> {
    run("kubectl", args)
}

/// Looks until there is something, and says how long that took.
///
/// # Errors
/// There was nothing within the limit; the message says what was there in its place.
pub fn until<T>(limit: Duration, mut look: impl FnMut() -> Result<T>) -> Result<(T, Duration)> {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(seen) => return Ok((seen, begun.elapsed())),
            Err(last) if begun.elapsed() > limit => return Err(last.context(format!("not within {limit:?}"))),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::bail;

    #[test]
    fn what_was_there_instead_is_told() {
        let error = super::until(Duration::ZERO, || -> anyhow::Result<()> { bail!("a fish") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "not within 0ns: a fish");
    }
}
