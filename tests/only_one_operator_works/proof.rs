//! The leader of two replicas is ended again and again, in every way and in the middle of its work. The replicas run as in pods.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use rustix::process::Signal;
use serde_json::json;

use super::replicas::{QUICK, Replica, holder};
use super::tenures::judge;
use crate::harness::{Project, config, until};

/// With fewer, an upgrade would be over before the next begins.
const RESOURCES: usize = 10;

pub struct Plan {
    pub kills: usize,
    pub upgrades: usize,
    pub seed: u64,
}

/// How a leader is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Killed,
    /// Killed, and its pod starts the next container at once, which takes part too.
    Restarted,
    Terminated,
    /// Until the next one works; then it goes on, and stands by.
    Stopped,
}

const ENDS: [End; 4] = [End::Killed, End::Terminated, End::Restarted, End::Stopped];

pub struct Figures {
    seed: u64,
    upgrades: usize,
    /// How long it took until the next one acquired the Lease, by how the one before ended.
    took: BTreeMap<End, Vec<Duration>>,
    /// Who lost the Lease although nobody ended them.
    unplanned: usize,
    tenures: usize,
    writes: usize,
    late: Vec<String>,
    early: Vec<String>,
}

/// Runs the plan. What must never be fails it; the rest is in the figures.
pub async fn pass(plan: &Plan) -> Figures {
    let project = Project::of_objects().await;
    let mut cast = Cast { project: &project, replicas: vec![], started: 0, containers: 0, unplanned: 0 };
    cast.fill().await;
    let (mut dice, mut ended) = (Dice(plan.seed | 1), vec![]);
    let (mut upgrades, mut colours) = (0, vec![usize::MAX; RESOURCES]);
    edit(&project, &colours).await;
    all_arrived(&project, &colours).await;
    for kill in 0..plan.kills {
        let wanted = plan.upgrades * (kill + 1) / plan.kills;
        (upgrades..wanted).for_each(|n| colours[n % RESOURCES] = n);
        upgrades = wanted;
        edit(&project, &colours).await;
        tokio::time::sleep(Duration::from_millis(dice.below(700))).await;
        ended.push(cast.end_leader(ENDS[kill % ENDS.len()]).await);
    }
    all_arrived(&project, &colours).await;
    nothing_is_left_open(&project).await;
    let judged = judge(&project);
    let mut took: BTreeMap<End, Vec<Duration>> = BTreeMap::new();
    for (end, at, next) in ended {
        took.entry(end).or_default().push(judged.took_over(&next, at));
    }
    let (tenures, writes, unplanned) = (judged.tenures.len(), judged.work.len(), cast.unplanned);
    let (late, early) = (judged.late, judged.early);
    let figures = Figures { seed: plan.seed, upgrades, took, unplanned, tenures, writes, late, early };
    assert!(figures.late.is_empty() && figures.early.is_empty(), "{figures}");
    figures
}

fn names(n: usize) -> [String; 3] {
    [format!("web-{n}"), format!("web-{n}-b"), format!("web-{n}-c")]
}

/// One upgrade of each whose colour is new.
async fn edit(project: &Project, colours: &[usize]) {
    join_all(colours.iter().enumerate().map(|(n, colour)| async move {
        let objects = names(n).map(|name| config(&name, &colour.to_string()));
        project.apply(&format!("web-{n}"), json!({"objects": objects})).await;
    }))
    .await;
}

async fn all_arrived(project: &Project, colours: &[usize]) {
    for (n, colour) in colours.iter().enumerate() {
        project.deployed(&format!("web-{n}")).await;
        for name in names(n) {
            let map = project.get("v1", "ConfigMap", &name).await.unwrap_or_else(|| panic!("{name} is lost"));
            assert_eq!(map.data["data"]["colour"], colour.to_string(), "{name}");
        }
    }
}

/// Each release has one record that is deployed, and it is the last one.
async fn nothing_is_left_open(project: &Project) {
    let records = project.objects("v1", "Secret", Some(&project.namespace));
    let records = records.list(&ListParams::default().labels("owner=helm")).await.unwrap().items;
    let mut by_release: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
    for record in records {
        let labels = json!(record.metadata.labels);
        let text = |key: &str| labels[key].as_str().map(str::to_owned).unwrap_or_default();
        by_release.entry(text("name")).or_default().push((text("version").parse().unwrap(), text("status")));
    }
    assert_eq!(by_release.len(), RESOURCES);
    for (release, mut records) in by_release {
        records.sort();
        let last = records.pop().unwrap();
        assert_eq!(last.1, "deployed", "{release}: {last:?} after {records:?}");
        // One that was given up for a newer spec in the middle of it has failed.
        let is_closed = |(_, status): &(u32, String)| status == "superseded" || status == "failed";
        assert!(records.iter().all(is_closed), "{release}: {records:?} before {last:?}");
    }
}

/// The two operators of the moment.
struct Cast<'a> {
    project: &'a Project,
    replicas: Vec<Replica>,
    started: usize,
    containers: usize,
    unplanned: usize,
}

impl Cast<'_> {
    /// Waits until one works and one stands by.
    async fn fill(&mut self) {
        self.bury();
        while self.replicas.len() < 2 {
            self.started += 1;
            let replica = self.container(&format!("r{}", self.started));
            match self.replicas.is_empty() {
                true => replica.leads().await,
                false => replica.is_there().await,
            }
            self.replicas.push(replica);
        }
    }

    /// The next container of a pod. Each is a user of its own.
    fn container(&mut self, pod: &str) -> Replica {
        self.containers += 1;
        let user = format!("{pod}-{}", self.containers);
        Replica::in_container(self.project, pod, &format!("uid-of-{pod}"), &user, QUICK)
    }

    fn bury(&mut self) {
        let before = self.replicas.len();
        self.replicas.retain_mut(|replica| replica.operator.runs());
        self.unplanned += before - self.replicas.len();
    }

    /// Ends the one that works. Gives back how, when, and who acquired the Lease then.
    async fn end_leader(&mut self, end: End) -> (End, Timestamp, String) {
        self.fill().await;
        let mut leader = self.take_leader().await;
        let at = Timestamp::now();
        leader.operator.signal(match end {
            End::Killed | End::Restarted => Signal::KILL,
            End::Terminated => Signal::TERM,
            End::Stopped => Signal::STOP,
        });
        if end == End::Restarted {
            let next = self.container(&leader.name);
            self.replicas.push(next);
        }
        let next = self.next_after(&leader).await;
        if end == End::Stopped {
            leader.operator.signal(Signal::CONT);
            leader.lost().await;
            self.replicas.push(leader);
            return (end, at, next);
        }
        let code = leader.operator.exit_code(Duration::from_secs(20)).await;
        assert_eq!(code, (end == End::Terminated).then_some(0), "{end:?}: {}", leader.operator.log());
        (end, at, next)
    }

    async fn take_leader(&mut self) -> Replica {
        until("somebody works", async || {
            let holder = holder(self.project).await?;
            let place = self.replicas.iter_mut().position(|replica| replica.is(&holder) && replica.operator.runs())?;
            Some(self.replicas.swap_remove(place))
        })
        .await
    }

    /// The user of the replica that works after this one.
    async fn next_after(&mut self, former: &Replica) -> String {
        until("the next one works", async || {
            // The next container of the same pod has the same name in the Lease.
            let next = |it: &&Replica| it.leads_now() && it.user != former.user;
            self.replicas.iter().find(next).map(|next| next.user.clone())
        })
        .await
    }
}

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: usize = self.took.values().map(Vec::len).sum();
        writeln!(out, "seed {}: {kills} leaders ended during {} upgrades", self.seed, self.upgrades)?;
        writeln!(out, "{:<12} {:>6} {:>10} {:>10} {:>10}", "ended by", "times", "min", "median", "max")?;
        for (end, took) in &self.took {
            let mut took = took.clone();
            took.sort();
            let [min, median, max] = [0, took.len() / 2, took.len() - 1].map(|n| format!("{} ms", took[n].as_millis()));
            writeln!(out, "{:<12} {:>6} {min:>10} {median:>10} {max:>10}", format!("{end:?}"), took.len())?;
        }
        writeln!(out, "tenures {}, of which ended by themselves {}", self.tenures, self.unplanned)?;
        writeln!(out, "writes {}, late {}, early {}", self.writes, self.late.len(), self.early.len())?;
        self.late.iter().chain(&self.early).try_for_each(|call| writeln!(out, "  {call}"))
    }
}
