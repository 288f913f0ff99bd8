//! Operators of which one works.

use std::time::Duration;

use crate::harness::{Launch, Operator, Project, until};

/// Of [`QUICK`].
pub const LEASE: Duration = Duration::from_secs(3);

/// With less patience than a cluster needs, so that tests are quick.
pub const QUICK: &[&str] = &[
    "--leader-elect",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=300ms",
];

/// One of several operators of a project.
pub struct Replica {
    pub name: String,
    /// Who it is in the audit log.
    pub user: String,
    pub operator: Operator,
}

impl Replica {
    pub fn start(project: &Project, name: &str, args: &[&'static str]) -> Self {
        Self::of(project, name, project.launch().args(args).replica(name))
    }

    pub fn of(project: &Project, name: &str, launch: Launch<'_>) -> Self {
        Replica { name: name.to_owned(), user: project.replica_user(name), operator: launch.start() }
    }

    /// A container of a pod, which is called like the pod and is a user of its own.
    pub fn in_container(project: &Project, pod: &str, uid: &str, user: &str, args: &[&'static str]) -> Self {
        let launch = project.launch().args(args).replica(user).env("POD_NAME", pod).in_container(uid);
        Replica { name: pod.to_owned(), user: project.replica_user(user), operator: launch.start() }
    }

    /// Waits until it says that it works.
    pub async fn leads(&self) {
        let what = format!("{} acquires the Lease", self.name);
        until(&what, async || self.has_led().then_some(())).await;
    }

    /// Waits until it says that somebody else works.
    pub async fn stands_by(&self) {
        until(&format!("{} stands by", self.name), async || self.is_standby().then_some(())).await;
    }

    /// Waits until it takes part. It may work already if somebody else has just ended.
    pub async fn is_there(&self) {
        let what = format!("{} takes part", self.name);
        until(&what, async || (self.is_standby() || self.has_led()).then_some(())).await;
    }

    /// Waits until it says that it lost the Lease.
    pub async fn lost(&self) {
        let what = format!("{} loses the Lease", self.name);
        until(&what, async || (!self.leads_now()).then_some(())).await;
    }

    /// Whether it holds the Lease, as far as its log says.
    pub fn leads_now(&self) -> bool {
        let log = self.operator.log();
        log.matches("acquired the Lease").count() > log.matches("lost the Lease").count()
    }

    /// Whether this is the holder of a Lease.
    pub fn is(&self, holder: &str) -> bool {
        holder.split('_').next() == Some(self.name.as_str())
    }

    fn is_standby(&self) -> bool {
        self.operator.log().contains("standing by")
    }

    fn has_led(&self) -> bool {
        self.operator.log().contains("acquired the Lease")
    }
}

/// Who holds the Lease of a project, if there is one.
pub async fn holder(project: &Project) -> Option<String> {
    let name = format!("chartwright.{}", project.resource.group);
    let lease = project.get("coordination.k8s.io/v1", "Lease", &name).await?;
    lease.data["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
}
