//! The helm process: a chart and values become text.
//!
//! helm gets nothing of the operator's but its arguments: no credentials, no plugins, directories of its own. Where a chart asks
//! the cluster, it gets the way to a gateway that answers. It is killed, with whatever it started, when the caller loses interest, when it takes too long and when it prints too
//! much.
//!
//! | module | what is in it |
//! |---|---|
//! | [`lanes`] | how many renders run at once |
//! | [`memory`] | how much memory a render may take |
//! | [`process`] | one run of a program within limits |
//! | [`complaint`] | what helm says on failure, readable |
//! | [`gateway`] | what helm may see of the cluster |
//! | [`schema`] | violations of values.schema.json |
//!
//! This module does not read the output: that is for [`crate::manifest`].

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::calls::Calls;
use crate::chart::{Asks, Chart, revision};
use crate::discovery::{Capabilities, Catalog, Kinds};
use crate::error::Category;
use crate::namespaces::Namespaces;
use crate::values::Values;
use crate::watches::{Crds, Lookup};
use crate::workplace::{self, PrivateDir};

pub mod complaint;
pub mod gateway;
pub mod lanes;
pub mod memory;
pub mod process;
pub mod schema;

pub use process::Limits;

use complaint::Complaint;
use gateway::fence::Fence;
use gateway::reader::Reader;
use gateway::seen::{Failure, Seen};
use gateway::{Gateway, Sight};
use process::{Ended, ProcessError};

/// A helm program that was found and answered.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    pub version: String,
    /// What one render may take.
    pub limits: Limits,
}

/// Everything that decides what a render prints.
pub struct Request<'a> {
    pub chart: &'a Chart,
    pub release: &'a str,
    pub namespace: &'a str,
    pub values: &'a Values,
    /// With an empty version, helm believes in the one that it was made for.
    pub capabilities: &'a Capabilities,
    pub is_upgrade: bool,
    /// As `.Release.Revision` says it. It counts only where it is asked for, see [`asks_revision`].
    pub revision: u32,
    /// Nobody waits for it.
    pub is_patient: bool,
}

/// Whether a render may print the number of its revision. Values are asked too: a chart may call `tpl` on them.
pub fn asks_revision(chart: &Chart, values: &Values) -> bool {
    asks(chart, values).revision
}

/// What a render has to learn from the cluster because no argument can say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Objects, for `lookup`.
    pub objects: bool,
    /// The exact list of kinds, or a version that a vendor has named: with arguments, helm adds to a list of its own, and
    /// reads numbers only.
    pub capabilities: bool,
}

/// What a chart asks the cluster with these values: they count, because they may be given to `tpl`.
pub fn asks(chart: &Chart, values: &Values) -> Asks {
    chart.asks.join(Asks::of_values(values.json()))
}

impl Needs {
    /// None where arguments say it all, which is quicker.
    pub fn of(chart: &Chart, values: &Values, lookup: Lookup, catalog: &Catalog) -> Option<Needs> {
        let asks = asks(chart, values);
        let needs = Needs {
            objects: asks.lookup && lookup != Lookup::None,
            capabilities: asks.api_versions || (asks.kube_version && !catalog.has_plain_version()),
        };
        (needs.objects || needs.capabilities).then_some(needs)
    }

    /// The way to learn it. What is in crds/ is there before a real install renders, unless nobody installs it.
    pub fn through(self, chart: &Chart, crds: Crds, kinds: Arc<Kinds>, calls: Calls, fence: Fence) -> Through {
        let brought = if crds == Crds::Skip { &[] } else { chart.brings() };
        let catalog = kinds.catalog.with(brought);
        Through { needs: self, sight: Sight { reader: Reader::new(calls, kinds, fence), catalog } }
    }
}

/// A render that asks the cluster.
pub struct Through {
    needs: Needs,
    sight: Sight,
}

impl Through {
    /// For an operator that looks at these namespaces only.
    pub fn among(mut self, namespaces: Namespaces) -> Self {
        self.sight.reader = self.sight.reader.among(namespaces);
        self
    }
}

/// The arguments that lead to a gateway.
struct Way<'a> {
    kubeconfig: &'a Path,
    needs: Needs,
}

#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("helm was not found ({0}); install helm 3 or 4, or name the program with --helm")]
    NotFound(String),
    #[error("{program} is not helm 3 or 4: {said}; install helm 3 or 4, or name the program with --helm")]
    WrongVersion { program: PathBuf, said: String },
    #[error("cannot run {program}: {error}")]
    Spawn { program: PathBuf, error: std::io::Error },
    #[error("cannot write a temporary file: {0}")]
    Temporary(std::io::Error),
    #[error("helm did not end within {} s and was stopped; look for an endless loop in the chart's templates", .0.as_secs_f32())]
    TimeLimit(Duration),
    #[error("helm printed more than {} MiB and was stopped; look for an endless loop in the chart's templates", .0 / 1024 / 1024)]
    OutputLimit(u64),
    #[error("helm needed more than {} MiB of memory and was stopped; look for what is repeated too often in the chart's templates or in the values, or give the operator more memory", .0 / 1024 / 1024)]
    MemoryLimit(u64),
    /// The values break the chart's schema.
    #[error("{0}")]
    Schema(String),
    /// helm cannot read the chart, whatever the values.
    #[error("helm cannot read the chart: {0}")]
    Chart(String),
    /// The chart does not render with these values.
    #[error("{0}")]
    Refused(String),
    /// It does not render, and it asked the cluster, for an object or a kind: it may render when that has come or changed.
    #[error("{0}")]
    Wanting(String),
    /// It renders objects of a kind that the cluster does not know.
    #[error(
        "the API server does not know the kind {kind} of {api_version}; install what brings it, or check the chart"
    )]
    UnknownKind { kind: String, api_version: String },
    #[error("cannot open the gateway for lookup: {0}")]
    Gateway(std::io::Error),
    #[error("{0}")]
    Lookup(Box<Failure>),
    #[error("helm printed bytes that are not UTF-8")]
    NotText,
}

impl RenderError {
    /// Whether values that somebody adds may be all that it takes.
    pub fn may_lack_values(&self) -> bool {
        match self {
            RenderError::Schema(sentence) => schema::is_only_missing(sentence),
            RenderError::Refused(_) => true,
            _ => false,
        }
    }

    pub fn category(&self) -> Category {
        match self {
            RenderError::Schema(_) => Category::InvalidValues,
            RenderError::Chart(_) => Category::InvalidChart,
            RenderError::Refused(_)
            | RenderError::NotText
            | RenderError::OutputLimit(_)
            | RenderError::MemoryLimit(_) => Category::RenderFailed,
            RenderError::Wanting(_) => Category::Missing,
            RenderError::UnknownKind { .. } => Category::UnknownKind,
            RenderError::Lookup(failure) => failure.error.category(),
            RenderError::NotFound(_)
            | RenderError::Gateway(_)
            | RenderError::WrongVersion { .. }
            | RenderError::Spawn { .. }
            | RenderError::Temporary(_)
            | RenderError::TimeLimit(_) => Category::HelmFailed,
        }
    }
}

impl From<Complaint> for RenderError {
    fn from(complaint: Complaint) -> Self {
        match complaint {
            Complaint::Schema(text) => RenderError::Schema(text),
            Complaint::Chart(text) => RenderError::Chart(text),
            Complaint::Template(text) => RenderError::Refused(text),
            Complaint::UnknownKind { kind, api_version } => RenderError::UnknownKind { kind, api_version },
        }
    }
}

impl Helm {
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Finds helm, by the given path or on PATH, and asks for its version.
    pub async fn find(explicit: Option<&Path>) -> Result<Self, RenderError> {
        let program = match explicit {
            Some(path) => {
                which::which(path).map_err(|error| RenderError::NotFound(format!("{}: {error}", path.display())))
            }
            None => which::which("helm").map_err(|_| RenderError::NotFound("no `helm` on PATH".into())),
        }?;
        let mut helm = Helm { program, version: String::new(), limits: Limits::default() };
        let args = ["version", "--template", "{{.Version}}"].map(OsString::from);
        let ended = helm.run(&private_dir()?, &args).await?;
        let said = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
        if !ended.success || !(said.starts_with("v3.") || said.starts_with("v4.")) {
            let said = if said.is_empty() { ended.stderr.trim() } else { said.as_str() };
            let said = said.lines().next().unwrap_or("it printed nothing").to_owned();
            return Err(RenderError::WrongVersion { program: helm.program, said });
        }
        helm.version = said;
        Ok(helm)
    }

    /// Renders a chart with what the request says about the cluster. `lookup` finds nothing.
    pub async fn template(&self, request: &Request<'_>) -> Result<String, RenderError> {
        self.template_in(&private_dir()?, request, None).await
    }

    /// Renders a chart that asks the cluster. The gateway is open as long as helm runs. It has something to tell also where
    /// the render fails.
    pub async fn template_through(
        &self,
        request: &Request<'_>,
        through: Through,
    ) -> (Result<String, RenderError>, Seen) {
        let Through { needs, sight } = through;
        let gateway = match Gateway::open(sight).await {
            Ok(gateway) => gateway,
            Err(error) => return (Err(RenderError::Gateway(error)), Seen::default()),
        };
        let rendered = self.template_at(&gateway, needs, request).await;
        let mut seen = gateway.close().await;
        let rendered = match (rendered, seen.failure.take()) {
            // Whatever helm made of it.
            (_, Some(failure)) => Err(RenderError::Lookup(Box::new(failure))),
            (Err(RenderError::Refused(why)), None) if seen.was_asked => Err(RenderError::Wanting(why)),
            (rendered, None) => rendered,
        };
        (rendered, seen)
    }

    async fn template_at(&self, gateway: &Gateway, needs: Needs, request: &Request<'_>) -> Result<String, RenderError> {
        let home = private_dir()?;
        let kubeconfig = home.path().join("kubeconfig");
        write(&kubeconfig, &gateway.kubeconfig()).map_err(RenderError::Temporary)?;
        self.template_in(&home, request, Some(Way { kubeconfig: &kubeconfig, needs })).await
    }

    async fn template_in(
        &self,
        home: &PrivateDir,
        request: &Request<'_>,
        way: Option<Way<'_>>,
    ) -> Result<String, RenderError> {
        let values = home.path().join("values.json");
        write(&values, &request.values.file_json()).map_err(RenderError::Temporary)?;
        let mut chart = request.chart.dir.clone();
        // helm says by itself that the first is 1.
        if request.revision > 1 && asks_revision(request.chart, request.values) {
            let own = home.path().join("chart");
            revision::with_number(&chart, request.revision, &own).map_err(RenderError::Temporary)?;
            chart = own;
        }
        let limits = Limits { is_patient: request.is_patient, ..self.limits };
        let mut args = arguments(request, &values);
        match way {
            Some(way) => args.extend(self.asking(&way, request)),
            None => args.extend(believing(request.capabilities)),
        }
        args.extend(by_place(request.release, &chart));
        let ended = self.run_within(home, &args, limits).await?;
        if !ended.success && memory::has_run_out(&ended.stderr) {
            return Err(RenderError::MemoryLimit(limits.memory));
        }
        if !ended.success {
            return Err(complaint::read(&ended.stderr, &request.chart.name).into());
        }
        String::from_utf8(ended.stdout).map_err(|_| RenderError::NotText)
    }

    /// How helm asks the cluster. helm 4 always asks for everything; helm 3 asks for objects and for capabilities apart.
    ///
    /// Whoever asks for capabilities also looks at each rendered object. Whether it is well-formed is for the API server to
    /// say, and whose it is for our preflight. So that is not checked here.
    fn asking(&self, way: &Way<'_>, request: &Request<'_>) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--kubeconfig".into(), way.kubeconfig.into()];
        // The gateway is slower than helm only by what the API server takes.
        args.extend(["--qps", "1000", "--burst-limit", "1000"].map(OsString::from));
        let is_helm_3 = self.version.starts_with("v3.");
        if way.needs.objects || !is_helm_3 {
            args.push("--dry-run=server".into());
        }
        if is_helm_3 && !way.needs.capabilities {
            args.extend(believing(request.capabilities));
            return args;
        }
        if is_helm_3 {
            args.push("--validate".into());
        }
        args.push("--disable-openapi-validation".into());
        if !request.is_upgrade && self.can_take_ownership() {
            args.push("--take-ownership".into());
        }
        args
    }

    /// Since 3.17.
    fn can_take_ownership(&self) -> bool {
        let minor = self.version.strip_prefix("v3.").and_then(|rest| rest.split('.').next()?.parse().ok());
        minor.is_none_or(|minor: u32| minor >= 17)
    }

    /// Renders a chart of our own making. On failure, what helm said as it said it: its places are ours to interpret.
    pub(crate) async fn evaluate(&self, chart: &Path, values: &str) -> Result<Result<String, String>, RenderError> {
        let home = private_dir()?;
        let file = home.path().join("values.json");
        write(&file, values).map_err(RenderError::Temporary)?;
        let mut args = vec!["template".into(), "-f".into(), file.into()];
        args.extend(by_place("own", chart));
        let ended = self.run(&home, &args).await?;
        if !ended.success {
            return Ok(Err(ended.stderr));
        }
        String::from_utf8(ended.stdout).map(Ok).map_err(|_| RenderError::NotText)
    }

    async fn run(&self, home: &PrivateDir, args: &[OsString]) -> Result<Ended, RenderError> {
        self.run_within(home, args, self.limits).await
    }

    async fn run_within(&self, home: &PrivateDir, args: &[OsString], limits: Limits) -> Result<Ended, RenderError> {
        process::run(&self.program, home.path(), args, limits).await.map_err(|error| match error {
            ProcessError::Spawn(error) | ProcessError::Read(error) => {
                RenderError::Spawn { program: self.program.clone(), error }
            }
            ProcessError::TimeLimit => RenderError::TimeLimit(self.limits.time),
            ProcessError::OutputLimit => RenderError::OutputLimit(self.limits.output),
        })
    }
}

/// All but what is given by place.
fn arguments(request: &Request<'_>, values: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["template".into()];
    args.extend(["-n".into(), request.namespace.into(), "-f".into(), values.into()]);
    args.push("--include-crds".into());
    for assignment in request.values.exact_integers() {
        args.extend(["--set".into(), assignment.into()]);
    }
    if request.is_upgrade {
        args.push("--is-upgrade".into());
    }
    args
}

/// What is given by place, behind all flags: nothing there can be one.
fn by_place(release: &str, chart: &Path) -> [OsString; 3] {
    ["--".into(), release.into(), chart.into()]
}

/// What helm believes about the cluster without asking it.
fn believing(capabilities: &Capabilities) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec![];
    if !capabilities.kube_version.is_empty() {
        args.extend(["--kube-version".into(), capabilities.kube_version.clone().into()]);
    }
    for api in &capabilities.api_versions {
        args.extend(["--api-versions".into(), api.into()]);
    }
    args
}

fn private_dir() -> Result<PrivateDir, RenderError> {
    workplace::private_dir("helm-").map_err(RenderError::Temporary)
}

/// Values may be secrets, so both the directory and the file are for this user only.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Overrides;

    fn asking(version: &str, needs: Needs, is_upgrade: bool) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Chart.yaml"), "apiVersion: v2\nname: app\nversion: 0.1.0\n").unwrap();
        let chart = Chart::load(dir.path()).unwrap();
        let values = Values::new(None, &Overrides::default()).unwrap();
        let capabilities = Capabilities { kube_version: "v1.36.3".into(), api_versions: vec![] };
        let (release, namespace) = ("web", "here");
        let request = Request {
            chart: &chart,
            release,
            namespace,
            values: &values,
            capabilities: &capabilities,
            is_upgrade,
            revision: 1,
            is_patient: false,
        };
        let helm = Helm { program: "helm".into(), version: version.into(), limits: Limits::default() };
        let way = Way { kubeconfig: Path::new("k"), needs };
        let args = helm.asking(&way, &request).into_iter().map(|arg| arg.to_string_lossy().into_owned());
        args.skip_while(|arg| arg != "1000").skip(3).collect()
    }

    #[test]
    fn each_helm_is_asked_for_no_more_than_the_chart_needs() {
        let (objects, capabilities) = (true, true);
        let lookup = Needs { objects, capabilities: false };
        let kinds = Needs { objects: false, capabilities };
        assert_eq!(asking("v3.22.0", lookup, false), ["--dry-run=server", "--kube-version", "v1.36.3"]);
        let validated = ["--validate", "--disable-openapi-validation", "--take-ownership"];
        assert_eq!(asking("v3.22.0", kinds, false), validated);
        assert_eq!(asking("v3.16.4", kinds, false), validated[..2]);
        let served = ["--dry-run=server", "--disable-openapi-validation", "--take-ownership"];
        assert_eq!(asking("v4.3.1", lookup, false), served);
        assert_eq!(asking("v4.3.1", kinds, true), served[..2]);
    }
}
