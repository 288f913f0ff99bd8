//! `chartwright adopt`: what stands in a custom resource's way, and to take it over.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::asking::is_agreed;
use super::output::{Format, print, tell};
use super::waiting::{Patience, failure, is_true};
use super::wanted::{Ready, Wanted};
use crate::course::{Course, Taking};
use crate::object::ObjectId;
use crate::ownership::Claim;
use crate::preview::Preview;
use crate::release::{History, Release, Status};
use crate::watches::Adopt;
use crate::wishes::ADOPT;

/// Adopt existing objects and releases
///
/// Shows which objects of the custom resource's release exist and belong to nobody, and whether helm or another operator made a
/// release of its name. With --yes, or after a question on a terminal, the annotation chartwright.dev/adopt is set on the custom
/// resource, and the operator takes them over where they are. Nothing is made again. What belongs to somebody else is never taken.
/// Objects are adopted only where `adopt` in watches.yaml is `objects` or `releases`, and in the release's namespace only.
///
/// The exit code is 0 if there is nothing to adopt, or when it is adopted, and 1 if it is not, or if that fails.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "chartwright adopt [OPTIONS] KIND NAME|KIND/NAME\n       chartwright adopt [OPTIONS] -f FILE"
)]
#[command(after_help = "Examples:
  chartwright adopt nginx web
  chartwright adopt nginx/web --yes
  chartwright adopt -f web.yaml -o json")]
pub struct Args {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub patience: Patience,
    /// Print data for scripts
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
}

/// What is there already.
#[derive(Debug, Default, PartialEq)]
struct Obstacles {
    /// Of another tool: name and revision.
    release: Option<(String, u32)>,
    loose: Vec<ObjectId>,
    /// With whose it is.
    foreign: Vec<(ObjectId, String)>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let ready = args.wanted.ready().await?;
    let scene = ready.scene();
    let preview = ready.preview("take over the objects of").await?;
    let mut obstacles = Obstacles { release: taken_over(&preview), ..Obstacles::default() };
    for (id, claim) in preview.claims(&scene).await? {
        match claim {
            Claim::Ours => {}
            Claim::Loose => obstacles.loose.push(id),
            Claim::Foreign(who) => obstacles.foreign.push((id, who)),
            Claim::Helm => obstacles.foreign.push((id, "a Helm release of the same name".to_owned())),
        }
    }
    print(&match args.output {
        None => obstacles.text(),
        Some(format) => format.text(&obstacles.data())?,
    })?;
    if let Some((id, who)) = obstacles.foreign.first() {
        bail!("{id} belongs to {who} and is not taken; give the custom resource another name, or remove it there");
    }
    if obstacles == Obstacles::default() {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(refusal) = obstacles.refusal(ready.watch.adopt, &preview.identity.namespace) {
        bail!(refusal);
    }
    if ready.found.is_none() {
        let wish =
            if obstacles.loose.is_empty() { String::new() } else { format!(" with the annotation {ADOPT}: \"true\"") };
        bail!("the custom resource is not in the cluster yet; apply it{wish}, and the operator takes this over");
    }
    match is_wanted(&args)? {
        true => take(&args, &ready, &obstacles).await,
        false => Ok(ExitCode::FAILURE),
    }
}

/// The release of another tool that the operator would take over.
fn taken_over(preview: &Preview) -> Option<(String, u32)> {
    let is_adopted = preview.course == Course::TakeCharge(Taking::Adopted);
    let latest = preview.history.latest().filter(|_| is_adopted)?;
    Some((format!("{}/{}", latest.namespace, latest.name), latest.revision))
}

impl Obstacles {
    fn text(&self) -> String {
        if *self == Obstacles::default() {
            return "nothing to adopt: whatever exists is the custom resource's own already\n".to_owned();
        }
        let release = self.release.iter().map(|(release, revision)| {
            format!("the release {release}, which another tool made, would be taken over at revision {revision}\n")
        });
        let loose = self.loose.iter().map(|id| format!("{id} exists and belongs to nobody\n"));
        let foreign = self.foreign.iter().map(|(id, who)| format!("{id} exists and belongs to {who}\n"));
        release.chain(loose).chain(foreign).collect()
    }

    /// Why the operator would not adopt the objects. It decides by the same rules.
    fn refusal(&self, consent: Adopt, namespace: &str) -> Option<String> {
        let first = self.loose.first()?;
        if let Some(id) = self.loose.iter().find(|id| id.namespace.as_deref() != Some(namespace)) {
            return Some(format!(
                "{id} is not in the namespace of the release ({namespace}), and a release adopts objects of its own namespace only; delete it, or give the object of the chart another name"
            ));
        }
        (!consent.allows_objects()).then(|| {
            format!(
                "the operator does not adopt {first}: `adopt` in watches.yaml is `{}` for this kind; an administrator can set `adopt: objects` there and restart the operator",
                consent.as_str()
            )
        })
    }

    fn data(&self) -> Value {
        let object = |id: &ObjectId, who: Option<&str>| {
            let api_version = id.gvk().api_version();
            json!({"apiVersion": api_version, "kind": id.kind, "namespace": id.namespace, "name": id.name, "owner": who})
        };
        let loose = self.loose.iter().map(|id| object(id, None));
        let foreign = self.foreign.iter().map(|(id, who)| object(id, Some(who)));
        let release = self.release.as_ref().map(|(name, revision)| json!({"name": name, "revision": revision}));
        json!({"release": release, "objects": loose.chain(foreign).collect::<Vec<_>>()})
    }
}

/// Asks, if there is somebody to ask.
fn is_wanted(args: &Args) -> anyhow::Result<bool> {
    let agreed = if args.yes { Some(true) } else { is_agreed("take this over?")? };
    if agreed.is_none() {
        tell("add --yes to take this over");
    }
    Ok(agreed.unwrap_or(false))
}

async fn take(args: &Args, ready: &Ready, obstacles: &Obstacles) -> anyhow::Result<ExitCode> {
    let Some(found) = &ready.found else { bail!("the custom resource is not in the cluster") };
    let before = found.cr.status().unwrap_or_default();
    // A release is taken over without a wish, since its name and its chart say whose it is.
    if !obstacles.loose.is_empty() {
        ready.session.annotate(found, ADOPT, Some("true")).await?;
    }
    if args.patience.no_wait {
        return Ok(ExitCode::SUCCESS);
    }
    let generation = found.cr.metadata.generation;
    let look = |status: &Value, history: &History| adopted(status, &before, history, generation);
    match args.patience.until(&ready.session, found, look).await? {
        Ok(revision) => {
            if !obstacles.loose.is_empty() {
                // It has done its work, and must not take what a later revision finds.
                ready.session.annotate(found, ADOPT, None).await?;
            }
            if args.output.is_none() {
                print(&format!("{}: adopted, as revision {revision}\n", found.shown()))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(message) => bail!("it was not adopted: {message}"),
    }
}

/// The revision that has all of it, or why there is none.
fn adopted(status: &Value, before: &Value, history: &History, generation: Option<i64>) -> Option<Result<u32, String>> {
    let is_ours = |latest: &&Release| latest.is_ours() && latest.status == Status::Deployed;
    let is_told = is_true(status, "Deployed") && !is_true(status, "ReleaseFailed");
    let is_observed = status["observedGeneration"].as_i64() >= generation;
    match history.latest().filter(is_ours).filter(|_| is_told && is_observed) {
        Some(latest) => Some(Ok(latest.revision)),
        None => failure(status, before).map(Err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("default".into()),
            name: name.into(),
        }
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let nothing = Obstacles::default();
        assert!(nothing.text().starts_with("nothing to adopt"));
        let some = Obstacles {
            release: Some(("default/web".into(), 3)),
            loose: vec![id("a")],
            foreign: vec![(id("b"), "app.g.io/shop".into())],
        };
        let expected = "the release default/web, which another tool made, would be taken over at revision 3\n\
                        ConfigMap default/a exists and belongs to nobody\nConfigMap default/b exists and belongs to app.g.io/shop\n";
        assert_eq!(some.text(), expected);
        let data = some.data();
        assert_eq!(data["release"], json!({"name": "default/web", "revision": 3}));
        assert_eq!(
            (&data["objects"][0]["owner"], &data["objects"][1]["owner"]),
            (&json!(null), &json!("app.g.io/shop"))
        );
    }

    #[test]
    fn what_the_operator_would_refuse_is_explained() {
        let loose = Obstacles { loose: vec![id("a")], ..Obstacles::default() };
        let refusal = loose.refusal(Adopt::None, "default").unwrap();
        assert!(refusal.contains("ConfigMap default/a") && refusal.contains("`adopt: objects`"), "{refusal}");
        for consent in [Adopt::Objects, Adopt::Releases] {
            assert_eq!(loose.refusal(consent, "default"), None);
            assert!(loose.refusal(consent, "elsewhere").unwrap().contains("its own namespace only"));
        }
        assert_eq!(Obstacles::default().refusal(Adopt::None, "default"), None);
    }
}
