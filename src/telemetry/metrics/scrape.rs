//! One answer to a scrape: what was counted, and what is right now.

use std::collections::BTreeMap;
use std::time::Instant;

use super::family::Name;
use super::resources::{self, OfKind};
use super::text::Text;
use super::{controller, process, write_counted};
use crate::controller::Operator;
use crate::controller::lives::{Here, Kind, Presence};
use crate::queue::{Pulse, Urgency};
use crate::telemetry::subject::Subject;
use crate::watching::{self, State};

static BUILD: Name<2> = Name {
    name: "helm_operator_build_info",
    help: "Build information for the helm-operator binary",
    labels: ["commit", "version"],
};
static LEADING: Name<1> = Name {
    name: "leader_election_master_status",
    help: "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
    labels: ["name"],
};
static MOST: Name<1> = Name {
    name: "controller_runtime_max_concurrent_reconciles",
    help: "Maximum number of concurrent reconciles per controller",
    labels: ["controller"],
};
static ACTIVE: Name<1> = Name {
    name: "controller_runtime_active_workers",
    help: "Number of currently used workers per controller",
    labels: ["controller"],
};
static DEPTH: Name<3> = Name {
    name: "workqueue_depth",
    help: "Current depth of workqueue by workqueue and priority",
    labels: ["controller", "name", "priority"],
};
static UNFINISHED: Name<2> = Name {
    name: "workqueue_unfinished_work_seconds",
    help: "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
    labels: ["controller", "name"],
};
static LONGEST: Name<2> = Name {
    name: "workqueue_longest_running_processor_seconds",
    help: "How many seconds has the longest running processor for workqueue been running.",
    labels: ["controller", "name"],
};
static CALLS_BUSY: Name<1> = Name {
    name: "chartwright_api_slots_busy",
    help: "Calls on objects that are under way, by the pool that they have a slot of.",
    labels: ["pool"],
};
static CALLS_WAITING: Name<1> =
    Name { name: "chartwright_api_slots_waiting", help: "Calls on objects that wait for a slot.", labels: ["pool"] };
static RENDERS_BUSY: Name<1> = Name {
    name: "chartwright_render_slots_busy",
    help: "Renders that are under way, by the lane that they are in.",
    labels: ["lane"],
};
static RENDERS_WAITING: Name<1> =
    Name { name: "chartwright_render_slots_waiting", help: "Renders that wait for a slot.", labels: ["lane"] };
static WATCHES: Name<1> = Name {
    name: "chartwright_watches",
    help: "Watches, by how they are: starting, working, failing, refused or dead.",
    labels: ["state"],
};
static KINDS: Name<3> = Name {
    name: "chartwright_kind_present",
    help: "Whether the API server knows a kind of watches.yaml.",
    labels: ["group", "kind", "version"],
};

/// The whole answer. Without an operator, while it is not connected, there is less to say.
pub fn scrape(Subject { operator, lease }: &Subject) -> String {
    let mut text = Text::default();
    write_counted(&mut text);
    process::write(&mut text);
    let commit = option_env!("CHARTWRIGHT_COMMIT").unwrap_or("unknown");
    text.gauge(&BUILD, [([commit.to_owned(), env!("CARGO_PKG_VERSION").to_owned()], 1.0)]);
    write_watches(&mut text);
    let holds = operator.as_ref().is_some_and(|operator| operator.leading.now());
    text.gauge(&LEADING, lease.iter().map(|lease| ([lease.to_string()], f64::from(u8::from(holds)))));
    if let Some(operator) = operator {
        write_slots(&mut text, operator);
        write_kinds(&mut text, &operator.lives.all());
    }
    text.into_string()
}

fn write_watches(text: &mut Text) {
    let all = watching::all(Instant::now());
    let state = |state: &State| match state {
        State::Working => "working",
        State::Starting => "starting",
        State::Failing(watching::Trouble::Refused) => "refused",
        State::Failing(_) => "failing",
        State::Dead => "dead",
    };
    let count = |word: &'static str| all.iter().filter(|watched| state(&watched.state) == word).count() as f64;
    text.gauge(
        &WATCHES,
        ["starting", "working", "failing", "refused", "dead"].map(|word| ([word.to_owned()], count(word))),
    );
}

type Load = (&'static str, (usize, usize));

fn write_slots(text: &mut Text, operator: &Operator) {
    let mut write = |busy: &Name<1>, waiting: &Name<1>, all: &[Load]| {
        text.gauge(busy, all.iter().map(|(pool, (busy, _))| ([(*pool).to_owned()], *busy as f64)));
        text.gauge(waiting, all.iter().map(|(pool, (_, waiting))| ([(*pool).to_owned()], *waiting as f64)));
    };
    write(&CALLS_BUSY, &CALLS_WAITING, &operator.calls.load());
    write(&RENDERS_BUSY, &RENDERS_WAITING, &operator.lanes.load());
}

fn write_kinds(text: &mut Text, kinds: &[Kind]) {
    let present = kinds.iter().map(|kind| {
        let gvk = &kind.gvk;
        let is_here = matches!(kind.presence, Presence::Here(_));
        ([gvk.group.clone(), gvk.kind.clone(), gvk.version.clone()], f64::from(u8::from(is_here)))
    });
    text.gauge(&KINDS, present);
    let here: Vec<(&Kind, &Here)> = kinds
        .iter()
        .filter_map(|kind| match &kind.presence {
            Presence::Here(here) => Some((kind, here)),
            _ => None,
        })
        .collect();
    // As in operator-sdk, kinds of one name in two groups are one controller to whoever looks at metrics.
    let mut pulses: BTreeMap<String, Pulse> = BTreeMap::new();
    for (kind, here) in &here {
        pulses.entry(controller(&kind.gvk.kind)).or_default().add(here.queue.pulse());
    }
    write_queues(text, &pulses);
    let all = here.iter().map(|(kind, here)| OfKind { gvk: kind.gvk.clone(), all: here.resources.all() });
    resources::write(text, &resources::once_each(all), resources::MOST);
}

fn write_queues(text: &mut Text, pulses: &BTreeMap<String, Pulse>) {
    let each = |value: fn(&Pulse) -> f64| pulses.iter().map(move |(name, pulse)| (name.clone(), value(pulse)));
    let one = |(name, value): (String, f64)| ([name], value);
    let two = |(name, value): (String, f64)| ([name.clone(), name], value);
    text.gauge(&MOST, each(|pulse| pulse.most_running as f64).map(one));
    text.gauge(&ACTIVE, each(|pulse| pulse.running.len() as f64).map(one));
    let seconds = |pulse: &Pulse| pulse.running.iter().map(|it| it.as_secs_f64()).sum();
    text.gauge(&UNFINISHED, each(seconds).map(two));
    let longest = |pulse: &Pulse| pulse.running.iter().max().map_or(0.0, |it| it.as_secs_f64());
    text.gauge(&LONGEST, each(longest).map(two));
    let depths = pulses.iter().flat_map(|(name, pulse)| {
        Urgency::ALL.map(|urgency| {
            ([name.clone(), name.clone(), priority(urgency).to_owned()], pulse.due[urgency as usize] as f64)
        })
    });
    text.gauge(&DEPTH, depths);
}

/// controller-runtime has numbers: 0 is what somebody waits for, -100 what nobody does.
fn priority(urgency: Urgency) -> &'static str {
    match urgency {
        Urgency::Edit => "0",
        Urgency::Install => "-50",
        Urgency::Recheck => "-100",
    }
}
