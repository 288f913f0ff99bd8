//! `chartwright support-bundle`: an archive with what somebody needs who is asked for help, and without secrets.
//!
//! | module | what is in it |
//! |---|---|
//! | [`bundle`] | the files, and the one way into them |
//! | [`masking`] | what is taken out beside what is known to be secret |
//! | [`suspicion`] | what sounds like a secret |
//! | [`collect`] | asking the cluster |
//! | [`operator`] | the operator's own Deployment, logs, Lease, metrics and rights |
//!
//! Whatever cannot be had is named in `missing.txt`, with the reason. Nothing of that ends the command.

pub mod bundle;
pub mod collect;
pub mod masking;
pub mod operator;
pub mod suspicion;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use k8s_openapi::jiff::Timestamp;

use super::Project;
use super::access::Access;
use super::output::{print, tell};
use bundle::Bundle;
use collect::Collector;

/// Collect diagnostics into an archive
///
/// It holds versions, watches.yaml, the charts' metadata, custom resources, their releases, objects and events, and the operator's
/// Deployment, logs, Lease, metrics and rights. With -n, only custom resources of that namespace.
///
/// The values of Secrets are not in it. They are read to find them in everything else, and masked there, also in base64. Values of
/// overrideValues and of environment variables are masked, and those under keys that sound like secrets. What cannot be read is
/// listed in missing.txt. Look at the archive before you give it away.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  chartwright support-bundle
  chartwright support-bundle -n shop -o shop.tgz
  chartwright support-bundle --deployment my-operator-system/my-operator-controller-manager")]
pub struct Args {
    /// The archive [default: chartwright-support-<time>.tgz]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the archive if it is there
    #[arg(long)]
    pub force: bool,
    /// The operator's Deployment, as NAMESPACE/NAME [default: found by its labels]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub deployment: Option<String>,
    #[command(flatten)]
    pub project: Project,
    #[command(flatten)]
    pub access: Access,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let now = Timestamp::now();
    let name = format!("chartwright-support-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tgz")));
    if !args.force && path.exists() {
        bail!("{} is there already; name another file with -o, or replace it with --force", path.display());
    }
    let is_watched = std::io::stderr().is_terminal();
    let progress = move |what: &str| {
        if is_watched {
            tell(&format!("{what} …"));
        }
    };
    let mut bundle = Bundle::default();
    Collector { args: &args, progress: &progress }.collect(&mut bundle).await?;
    let missing = bundle.missing();
    let files = bundle.redacted();
    write(&path, &bundle::pack(&files, &name, now)?, args.force)?;
    print(&summary(&path, &files, missing))?;
    Ok(ExitCode::SUCCESS)
}

/// Nobody else may read it, not even for a moment. What is there is replaced as a whole or not at all.
fn write(path: &Path, archive: &[u8], force: bool) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if force {
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Such a file is its owner's alone.
        let mut file = tempfile::NamedTempFile::new_in(directory).with_context(cannot)?;
        file.write_all(archive).with_context(cannot)?;
        file.persist(path).with_context(cannot)?;
        return Ok(());
    }
    let opened: Result<File, _> = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} is there already; name another file with -o, or replace it with --force", path.display())
        }
        opened => opened.with_context(cannot)?,
    };
    file.write_all(archive).with_context(cannot)
}

fn summary(path: &Path, files: &BTreeMap<String, String>, missing: usize) -> String {
    let mut text = format!("{} holds:\n", path.display());
    for (name, content) in files {
        text.push_str(&format!("  {name} ({} bytes)\n", content.len()));
    }
    text.push_str(&match missing {
        0 => "Nothing is missing.\n".to_owned(),
        1 => "1 thing could not be read; missing.txt says why.\n".to_owned(),
        more => format!("{more} things could not be read; missing.txt says why.\n"),
    });
    text.push_str(
        "Values of Secrets are masked. Names, images and addresses are not: look at it before you give it away.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_archive_is_private_and_replaces_nothing_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tgz");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        write(&path, b"one", false).unwrap();
        assert_eq!(mode(), 0o600);
        assert!(write(&path, b"two", false).unwrap_err().to_string().contains("--force"));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write(&path, b"two", true).unwrap();
        assert_eq!((std::fs::read(&path).unwrap().as_slice(), mode()), (&b"two"[..], 0o600));
    }
}
