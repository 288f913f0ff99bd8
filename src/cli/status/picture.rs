//! All that there is to say about one custom resource: its release, its conditions in words, its objects, its hooks. Pure.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::rows;
use super::told::{Ready, Told, ago};
use super::tree::{self, Node};
use crate::hooks;
use crate::printable::escaped;
use crate::redaction::Redactor;
use crate::release::mask::MASK;
use crate::release::{HookPhase, Release};

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const END: &str = "\x1b[0m";

#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub told: Told,
    /// The newest revision.
    pub release: Option<Facts>,
    pub objects: Vec<Node>,
    pub hooks: Vec<Hook>,
    /// What could not be found out.
    pub unknown: Vec<String>,
}

/// What a record says of a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub name: String,
    pub namespace: String,
    pub revision: u32,
    pub status: String,
    pub chart: String,
    pub by: &'static str,
    pub description: String,
    pub deployed: Timestamp,
}

/// A hook, and how it last ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub events: Vec<String>,
    pub kind: String,
    pub name: String,
    pub phase: HookPhase,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

/// The first line of a message, without the words that announce the others.
fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default().trim_end_matches("; its last lines:")
}

impl Facts {
    pub fn of(release: &Release) -> Self {
        Facts {
            name: release.name.clone(),
            namespace: release.namespace.clone(),
            revision: release.revision,
            status: release.status.as_str().to_owned(),
            chart: format!("{}-{}", release.chart_name(), release.chart["version"].as_str().unwrap_or_default()),
            by: if release.was_made_by_helm() { "helm" } else { "chartwright" },
            description: release.description.clone(),
            deployed: release.last_deployed,
        }
    }
}

/// The hooks of a revision. What is on its way is in our part of the record, what has ended in Helm's.
pub fn hooks(release: &Release) -> Vec<Hook> {
    let marks: &[hooks::Mark] = release.own.as_ref().map_or(&[], |own| &own.hooks);
    let hook = |(index, hook): (usize, &crate::release::HookRecord)| {
        let mark = marks.iter().rev().find(|mark| mark.hook == index);
        let begun = mark.and_then(|mark| Timestamp::from_second(mark.since).ok());
        Hook {
            events: hook.events.clone(),
            kind: hook.kind.clone(),
            name: hook.name.clone(),
            phase: mark.map_or(hook.last_run.phase, |mark| mark.phase),
            started: begun.or(hook.last_run.started_at),
            ended: hook.last_run.completed_at,
        }
    };
    release.hooks.iter().enumerate().map(hook).collect()
}

impl Picture {
    /// Takes out what must not be shown: what live objects say was not looked at by the operator.
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        fn walk(nodes: &mut [Node], redactor: &Redactor) {
            for node in nodes {
                node.health.message = redactor.text(&node.health.message).into_owned();
                walk(&mut node.below, redactor);
            }
        }
        walk(&mut self.objects, redactor);
        redactor.status(&mut self.told.status);
        if let Some(release) = &mut self.release {
            release.description = redactor.text(&release.description).into_owned();
        }
        self
    }

    /// Without the words of programs: nobody looked for secrets in them.
    pub fn without_quotes(mut self) -> Self {
        fn walk(nodes: &mut [Node]) {
            for node in nodes {
                node.health.message = node.health.reason.clone();
                walk(&mut node.below);
            }
        }
        walk(&mut self.objects);
        self.told = self.told.without_quotes();
        if let Some(release) = &mut self.release {
            release.description = MASK.to_owned();
        }
        self
    }

    pub fn text(&self, colour: bool, now: Timestamp) -> String {
        let (bold, end) = if colour { (BOLD, END) } else { ("", "") };
        let mut text = format!("{bold}{}{end}\n", escaped(&self.told.shown()));
        for (name, said) in self.facts(colour, now) {
            text.push_str(&format!("  {name:<10} {said}\n"));
        }
        let mut section = |title: &str, body: String| {
            if !body.is_empty() {
                text.push_str(&format!("\n{bold}{title}{end}\n{body}"));
            }
        };
        section("Conditions", escaped(&self.conditions(now)).into_owned());
        section("Objects", tree::text(&self.objects, self.told.metadata.namespace.as_deref(), colour));
        section("Hooks", escaped(&self.hook_lines(now)).into_owned());
        section("Not known", self.unknown.iter().map(|why| format!("  {}\n", escaped(why))).collect());
        text
    }

    fn facts(&self, colour: bool, now: Timestamp) -> Vec<(&'static str, String)> {
        let told = &self.told;
        let mut facts = vec![];
        facts.push(("Release", self.release_sentence(now)));
        let generation = told.metadata.generation.unwrap_or_default();
        let seen = if told.is_observed() { "seen by the operator" } else { "not seen by the operator yet" };
        facts.push(("Spec", format!("generation {generation}, {seen}")));
        if told.repairs() > 0 {
            let last = told.status.pointer("/repairs/last").and_then(Value::as_str).and_then(|it| it.parse().ok());
            facts.push(("Repairs", format!("{}, the last {} ago", told.repairs(), ago(last, now))));
        }
        if let Some(since) = &told.metadata.deletion_timestamp {
            facts.push(("Deleted", format!("{} ago; the release is being removed", ago(Some(since.0), now))));
        }
        facts.extend(told.held().map(|held| ("Held", held.to_owned())));
        facts.extend(told.contested().map(|contested| ("Contested", contested.to_owned())));
        facts.extend(told.unknown_fields().map(|sentence| ("Warning", sentence.to_owned())));
        facts.extend(told.paused().map(|paused| {
            let said = format!("the operator leaves it alone (chartwright.dev/paused: {paused:?})");
            ("Paused", format!("{said}; resume it with `{}`", told.resume()))
        }));
        for (key, name) in [("kept", "Kept"), ("adopted", "Adopted")] {
            facts.extend(Some(told.list(key).join(", ")).filter(|list| !list.is_empty()).map(|list| (name, list)));
        }
        let facts = facts.into_iter().map(|(name, said): (_, String)| (name, escaped(&said).into_owned()));
        std::iter::once(("Ready", self.readiness(colour))).chain(facts).collect()
    }

    fn readiness(&self, colour: bool) -> String {
        let (paint, word) = match self.told.ready() {
            Ready::Yes => (GREEN, "yes"),
            Ready::No if self.told.is_stuck() => (RED, "no, and waiting will not help"),
            Ready::No => (YELLOW, "no"),
            Ready::Unknown => (YELLOW, "not known"),
        };
        let word = if colour { format!("{paint}{word}{END}") } else { word.to_owned() };
        match self.told.error() {
            Some(error) => format!("{word}: {}", escaped(error.trim()).replace('\n', "\n             ")),
            None => word,
        }
    }

    fn release_sentence(&self, now: Timestamp) -> String {
        match (&self.release, self.told.release(), self.told.revision()) {
            (Some(facts), _, _) => format!(
                "{}/{}, revision {}: {} ({}, chart {}, by {}, {} ago)",
                facts.namespace,
                facts.name,
                facts.revision,
                facts.status,
                facts.description.lines().next().unwrap_or_default(),
                facts.chart,
                facts.by,
                ago(Some(facts.deployed), now),
            ),
            (None, Some(name), Some(revision)) => format!("{name}, revision {revision}"),
            _ => "none yet".to_owned(),
        }
    }

    fn conditions(&self, now: Timestamp) -> String {
        let rows: Vec<Vec<String>> = self
            .told
            .conditions()
            .map(|condition| {
                let text = |key: &str| condition[key].as_str().unwrap_or_default();
                let message = first_line(text("message"));
                let since = ago(text("lastTransitionTime").parse().ok(), now);
                vec![format!("  {}", text("type")), text("status").into(), since, text("reason").into(), message.into()]
            })
            .collect();
        match rows.is_empty() {
            true => String::new(),
            false => crate::cli::output::table(&["  CONDITION", "STATUS", "FOR", "REASON", "MESSAGE"], &rows),
        }
    }

    fn hook_lines(&self, now: Timestamp) -> String {
        let rows: Vec<Vec<String>> = self
            .hooks
            .iter()
            .map(|hook| {
                let took = match (hook.started, hook.ended) {
                    (Some(started), Some(ended)) if hook.phase != HookPhase::Running => ago(Some(started), ended),
                    (Some(started), _) if hook.phase == HookPhase::Running => {
                        format!("{} so far", ago(Some(started), now))
                    }
                    _ => "-".to_owned(),
                };
                let phase: &'static str = hook.phase.into();
                let phase = if phase.is_empty() { "not run" } else { phase };
                vec![
                    format!("  {}", hook.events.join(",")),
                    format!("{} {}", hook.kind, hook.name),
                    phase.to_owned(),
                    took,
                ]
            })
            .collect();
        match rows.is_empty() {
            true => String::new(),
            false => crate::cli::output::table(&["  EVENT", "HOOK", "LAST RUN", "TOOK"], &rows),
        }
    }

    pub fn data(&self) -> Value {
        let mut data = rows::data(&self.told);
        data["conditions"] = self.told.status["conditions"].clone();
        data["kept"] = json!(self.told.list("kept"));
        data["adopted"] = json!(self.told.list("adopted"));
        data["record"] = self.release.as_ref().map_or(Value::Null, |facts| {
            json!({"name": facts.name, "namespace": facts.namespace, "revision": facts.revision, "status": facts.status,
                "chart": facts.chart, "by": facts.by, "description": facts.description, "updated": facts.deployed.to_string()})
        });
        data["objects"] = self.objects.iter().map(Node::data).collect();
        let hook = |hook: &Hook| {
            let phase: &'static str = hook.phase.into();
            json!({"events": hook.events, "kind": hook.kind, "name": hook.name, "phase": phase,
                "started": hook.started.map(|it| it.to_string()), "ended": hook.ended.map(|it| it.to_string())})
        };
        data["hooks"] = self.hooks.iter().map(hook).collect();
        data["unknown"] = json!(self.unknown);
        data
    }

    /// What is said of the custom resource, its objects and its hooks, by name.
    fn lines(&self) -> Vec<(String, String)> {
        let told = &self.told;
        let said = told.error().map(|error| format!(": {}", first_line(&error))).unwrap_or_default();
        let revision = told.revision().map(|revision| format!(", revision {revision}")).unwrap_or_default();
        let mut all = vec![(told.shown(), format!("Ready={}{revision}{said}", told.ready().as_str()))];
        self.objects.iter().for_each(|node| node.lines(&mut all));
        all.extend(self.hooks.iter().map(|hook| {
            let phase: &'static str = hook.phase.into();
            (format!("hook {} {}", hook.kind, hook.name), if phase.is_empty() { "not run" } else { phase }.to_owned())
        }));
        all
    }

    /// A line for each thing that is not as it was.
    pub fn changes(&self, before: Option<&Picture>) -> Vec<String> {
        let old = before.map(Picture::lines).unwrap_or_default();
        let new = self.lines();
        let gone = old.iter().filter(|(name, _)| !new.iter().any(|(known, _)| known == name));
        let gone = gone.map(|(name, _)| format!("{name} is gone"));
        let changed = new.iter().filter(|line| !old.contains(line)).map(|(name, said)| format!("{name} {said}"));
        changed.chain(gone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status::told::tests::{conditions, told};
    use crate::cli::status::tree::{Seen, grow, tests::id};

    fn now() -> Timestamp {
        "2026-01-01T00:05:00Z".parse().unwrap()
    }

    fn picture(live: Seen) -> Picture {
        let mut status = conditions(&[
            ("Ready", "False", "Progressing", "Service shop/web: does not exist"),
            ("Held", "True", "RollbackRequested", "Revision 2 stays: it was asked for"),
        ]);
        status["deployedRelease"] = json!({"name": "web", "revision": 2});
        status["repairs"] = json!({"count": 4, "last": "2026-01-01T00:04:00Z"});
        status["kept"] = json!(["PersistentVolumeClaim shop/data"]);
        let hook = Hook {
            events: vec!["pre-install".into()],
            kind: "Job".into(),
            name: "migrate".into(),
            phase: HookPhase::Succeeded,
            started: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            ended: Some("2026-01-01T00:00:07Z".parse().unwrap()),
        };
        let objects = grow(&[(id("Service", "web"), live)], &[], now());
        Picture { told: told(status), release: None, objects, hooks: vec![hook], unknown: vec![] }
    }

    #[test]
    fn everything_that_matters_at_night_is_on_one_page() {
        let text = picture(Seen::Gone).text(false, now());
        for part in [
            "Nginx shop/web\n",
            "Ready      no: Progressing: Service shop/web: does not exist",
            "Release    web, revision 2",
            "Spec       generation 2, seen by the operator",
            "Repairs    4, the last 60s ago",
            "Held       Revision 2 stays: it was asked for",
            "Kept       PersistentVolumeClaim shop/data",
            "└─ Service web   NotFound    does not exist",
            "pre-install   Job migrate   Succeeded   7s",
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
    }

    #[test]
    fn who_follows_line_by_line_hears_of_changes_only() {
        let (before, live) = (picture(Seen::Gone), json!({"apiVersion": "v1", "kind": "Service", "metadata": {}}));
        let mut after = picture(Seen::Live(live));
        assert_eq!(before.changes(Some(&before)), Vec::<String>::new());
        assert_eq!(before.changes(None).len(), 3, "all of it at first");
        assert_eq!(after.changes(Some(&before)).len(), 1);
        assert!(after.changes(Some(&before))[0].starts_with("Service shop/web Current"));
        after.hooks.clear();
        assert_eq!(after.changes(Some(&before))[1], "hook Job migrate is gone");
    }

    #[test]
    fn without_quotes_nobody_speaks() {
        let mut loud = picture(Seen::Hidden("hunter2".into()));
        loud.told.status["conditions"][0]["message"] = "the password is hunter2".into();
        loud.told.metadata.annotations.insert("chartwright.dev/paused".into(), "hunter2".into());
        let quiet = loud.without_quotes();
        let (text, data) = (quiet.text(false, now()), quiet.data().to_string());
        assert!(!text.contains("hunter2") && !data.contains("hunter2"), "{text}{data}");
        assert!(text.contains("Progressing"), "{text}");
    }

    #[test]
    fn what_came_from_a_secret_is_not_shown() {
        let mut redactor = Redactor::default();
        redactor.learn(&json!("hunter2"), [&String::new()]);
        let hidden = picture(Seen::Hidden("cannot read hunter2".into())).redacted(&redactor);
        assert!(!hidden.text(false, now()).contains("hunter2"));
    }
}
