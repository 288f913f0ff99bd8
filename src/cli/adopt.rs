//! `chartwright adopt`: what stands in a custom resource's way, and to take it over.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::asking::is_agreed;
use super::output::{Format, print};
use super::waiting::{Patience, failure, is_true};
use super::wanted::{Ready, Wanted};
use crate::course::{Course, Taking};
use crate::object::ObjectId;
use crate::ownership::Claim;
use crate::preview::Preview;
use crate::release::{History, Release, Status};
use crate::wishes::ADOPT;

/// Take over what exists already
///
/// Shows which objects of the custom resource's release exist and belong to nobody, and whether helm or another operator made a
/// release of its name. With --yes, or after a question on a terminal, the annotation chartwright.dev/adopt is set on the custom
/// resource, and the operator takes them over where they are. Nothing is made again. What belongs to somebody else is never taken.
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
    let preview = Preview::of(&ready.cr, &scene).await?;
    let mut obstacles = Obstacles { release: taken_over(&preview), ..Obstacles::default() };
    for (id, claim) in preview.claims(&scene).await? {
        match claim {
            Claim::Ours => {}
            Claim::Loose => obstacles.loose.push(id),
            Claim::Foreign(who) => obstacles.foreign.push((id, who)),
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
        eprintln!("add --yes to take this over");
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
            foreign: vec![(id("b"), "App shop".into())],
        };
        let expected = "the release default/web, which another tool made, would be taken over at revision 3\n\
                        ConfigMap default/a exists and belongs to nobody\nConfigMap default/b exists and belongs to App shop\n";
        assert_eq!(some.text(), expected);
        let data = some.data();
        assert_eq!(data["release"], json!({"name": "default/web", "revision": 3}));
        assert_eq!((&data["objects"][0]["owner"], &data["objects"][1]["owner"]), (&json!(null), &json!("App shop")));
    }
}
