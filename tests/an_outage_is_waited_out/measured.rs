//! How long after the API server's return an edit is served, on a control plane whose API server can be stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::Api;
use lab::ControlPlane;
use serde_json::json;

use crate::harness::{Launch, Operator, Project, config};

/// About how long the API server takes until it is ready, so that an outage is as long as it is called.
const STARTUP: Duration = Duration::from_secs(5);
/// When waiting for an edit is given up.
const PATIENCE: Duration = Duration::from_secs(240);
const LOOK: Duration = Duration::from_millis(50);

/// The operator's container as the kubelet keeps it: where it ends, it is started again, at once and then after 10 s, 20 s, 40 s and so on.
struct Container<'a> {
    project: &'a Project,
    operator: Operator,
    restarts: u32,
    start_at: Option<Instant>,
}

impl<'a> Container<'a> {
    fn new(project: &'a Project) -> Self {
        Container { project, operator: launch(project).start(), restarts: 0, start_at: None }
    }

    /// Does what the kubelet does now.
    fn tend(&mut self) {
        if self.operator.runs() {
            return;
        }
        let pause = match self.restarts {
            0 => Duration::ZERO,
            count => Duration::from_secs(5).saturating_mul(1 << count.min(6)),
        };
        if Instant::now() >= *self.start_at.get_or_insert(Instant::now() + pause) {
            (self.operator, self.start_at) = (launch(self.project).start(), None);
            self.restarts += 1;
        }
    }

    /// Tends it for so long.
    async fn tend_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.tend();
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// With the flags of the manifests, and with rights that RBAC gives it, which the API server knows only some time after its start.
fn launch(project: &Project) -> Launch<'_> {
    project.launch().args(&["--leader-elect"]).limited().in_container("22222222-2222-4222-8222-222222222222")
}

/// One outage, and what it came to.
pub struct Row {
    wanted: Duration,
    /// From the end of the API server until it was ready again.
    away: Duration,
    /// From then on until an edit of right before the outage was served, and one of right after it.
    edits: [Duration; 2],
    restarts: u32,
}

impl Row {
    pub fn assert_within(&self, limit: Duration) {
        assert_eq!(self.restarts, 0, "after an outage of {:?}", self.wanted);
        let served = self.edits.iter().max().expect("two edits");
        assert!(*served < limit, "after an outage of {:?} an edit was served after {served:?}", self.wanted);
    }
}

/// Goes through these outages, one after the other, with one operator.
pub async fn measure(outages: &[Duration]) -> Vec<Row> {
    let plane = Arc::new(ControlPlane::start().expect("a control plane"));
    let project = Project::on(Some(plane), "App").await;
    project.template("objects.yaml", "{{ range .Values.objects }}\n---\n{{ toYaml . }}\n{{ end }}");
    allow_all(&project).await;
    let mut container = Container::new(&project);
    edit(&project, "before", "start").await.expect("the API server answers");
    project.deployed("before").await;
    let mut rows = vec![];
    for wanted in outages {
        rows.push(outage(&project, &mut container, *wanted).await);
    }
    rows
}

async fn outage(project: &Project, container: &mut Container<'_>, wanted: Duration) -> Row {
    let (colour, restarts) = (format!("after-{}-s", wanted.as_secs()), container.restarts);
    edit(project, "before", &colour).await.expect("the API server answers");
    project.plane().stop_api_server();
    let stopped = Instant::now();
    container.tend_for(wanted.saturating_sub(STARTUP)).await;
    project.plane().restart_api_server();
    until(container, "the API server is ready", async || is_ready(&project.client).await).await;
    let ready = Instant::now();
    until(container, "the edit is accepted", async || edit(project, "after", &colour).await.is_ok()).await;
    let mut served = [None, None];
    until(container, "both edits are served", async || {
        for (name, served) in ["before", "after"].iter().zip(&mut served) {
            if served.is_none() && shows(project, name, &colour).await {
                *served = Some(ready.elapsed());
            }
        }
        served.iter().all(Option::is_some)
    })
    .await;
    let edits = served.map(Option::unwrap_or_default);
    Row { wanted, away: ready - stopped, edits, restarts: container.restarts - restarts }
}

async fn until(container: &mut Container<'_>, what: &str, mut look: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !look().await {
        assert!(Instant::now() < end, "waited in vain: {what}\n{}", container.operator.log());
        container.tend();
        tokio::time::sleep(LOOK).await;
    }
}

async fn edit(project: &Project, name: &str, colour: &str) -> Result<(), kube::Error> {
    let spec = json!({"objects": [config(name, colour)]});
    let (api_version, kind) = (&project.resource.api_version, &project.resource.kind);
    let cr = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let params = kube::api::PatchParams::apply("test").force();
    project.crs().patch(name, &params, &kube::api::Patch::Apply(cr)).await.map(drop)
}

async fn shows(project: &Project, name: &str, colour: &str) -> bool {
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(project.client.clone(), &project.namespace);
    let map = maps.get_opt(name).await.ok().flatten();
    map.and_then(|map| map.data).is_some_and(|data| data.get("colour").is_some_and(|it| it == colour))
}

async fn is_ready(client: &Client) -> bool {
    let request = http::Request::get("/readyz").body(vec![]).expect("a request");
    client.request_text(request).await.is_ok()
}

async fn allow_all(project: &Project) {
    let rbac = "rbac.authorization.k8s.io";
    let subjects = json!([{"kind": "User", "name": project.user()}]);
    let role = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"});
    let name = project.user();
    let binding = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "subjects": subjects, "roleRef": role});
    project.create(binding).await;
}

pub fn show(rows: &[Row]) {
    let seconds = |time: &Duration| format!("{:.1}", time.as_secs_f64());
    println!(
        "\n{:>8} {:>8} {:>24} {:>23} {:>9}",
        "outage", "away", "edit right before it", "edit right after it", "restarts"
    );
    for Row { wanted, away, edits: [before, after], restarts } in rows {
        let (away, before, after) = (seconds(away), seconds(before), seconds(after));
        println!("{:>6} s {away:>6} s {before:>22} s {after:>21} s {restarts:>9}", wanted.as_secs());
    }
    println!("served: seconds from the moment at which the API server was ready");
}
