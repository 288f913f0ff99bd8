//! Asking the API server about everything before the first write, so that a bad render changes nothing.
//!
//! Every object that can be judged is applied as a dry run. What the API server says about the object itself rejects the
//! whole render. What may only be so because the same release brings the missing part is no reason: the real apply
//! decides then. An object that exists and belongs to somebody else is never taken.

use std::collections::{HashMap, HashSet};

use futures::{FutureExt, StreamExt, stream};
use kube::Error;
use kube::core::ObjectMeta;

use crate::apply::crds::{self, GroupKind};
use crate::apply::handover;
use crate::calls::Calls;
use crate::error::{Category, of_kube, sentence};
use crate::object::ObjectId;
use crate::ownership::{Claim, judge};
use crate::plan::{Judged, Plan, Planned, Target, is_kept};
use crate::prune::holds_data;

/// How many objects are asked about at once for one release.
const AT_ONCE: usize = 8;
/// How many complaints a person is shown.
const SHOWN: usize = 3;

/// What the custom resource allows beyond the usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// Take objects that nobody claims.
    pub adopt: bool,
    /// Make objects again where a change is not possible otherwise.
    pub replace: bool,
    /// Leave objects as they are where a change is not possible. So it is when a revision is gone back to, or taken over:
    /// a claim or a cluster IP is worth more than the wording of an old manifest.
    pub leave: bool,
}

/// What is known about the objects of a plan.
#[derive(Debug, Default)]
pub struct Preflight {
    /// To be deleted and made again, with the UID of what is there.
    pub replace: HashMap<ObjectId, String>,
    /// Not to be changed, with the UID of what is there.
    pub leave: HashMap<ObjectId, String>,
    /// Written by a helm that does not apply server-side: what it wrote becomes ours first.
    pub hand_over: HashSet<ObjectId>,
    /// There already, and nobody's until now.
    pub adopted: HashSet<ObjectId>,
    /// Not there yet.
    pub new: HashSet<ObjectId>,
    /// Kinds that this release makes others of: nobody can say yet what their objects may be.
    pub changing: HashSet<GroupKind>,
}

impl Preflight {
    fn note(&mut self, id: ObjectId, found: Found) {
        match found {
            Found::New => drop(self.new.insert(id)),
            Found::Replace(uid) => drop(self.replace.insert(id, uid)),
            Found::Leave(uid) => drop(self.leave.insert(id, uid)),
            Found::There { is_adopted, is_helms } => {
                if is_helms {
                    self.hand_over.insert(id.clone());
                }
                if is_adopted {
                    self.adopted.insert(id);
                }
            }
            Found::Unjudged => {}
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Rejected {
    pub category: Category,
    message: String,
}

impl Rejected {
    /// The API server's words about an object.
    pub fn about(id: &ObjectId, error: &Error) -> Self {
        Rejected { category: of_kube(error), message: format!("{id}: {}", complaint_about(id, error)) }
    }

    /// What is to be adopted must have been seen: a chart that was not shown the password in it has drawn a new one.
    pub fn unseen(id: &ObjectId) -> Self {
        belongs(format!(
            "{id} is to be adopted, but the chart asked for it with `lookup` and was not shown it, so it would be overwritten; set `lookup: namespace` in watches.yaml to have what is in it used, or delete it"
        ))
    }

    pub fn foreign_crd(id: &ObjectId, who: &str) -> Self {
        belongs(format!(
            "{id} of the chart's crds/ belongs to {who}; set `crds: Create` in watches.yaml to leave it as it is"
        ))
    }
}

/// What became of one object.
enum Found {
    New,
    There {
        is_adopted: bool,
        is_helms: bool,
    },
    /// The API server could not judge it, and may after the release's other parts are there.
    Unjudged,
    Replace(String),
    Leave(String),
}

/// Asks about every object. `known` tells of an object with this UID whether it is certainly ours, so that its owner need
/// not be asked for.
pub async fn preflight(
    plan: &Plan,
    target: &Target<'_>,
    known: &(dyn Fn(&ObjectId, &str) -> bool + Sync),
    allowed: Allowed,
    calls: &Calls,
) -> Result<Preflight, Rejected> {
    let changing = crds::foresee(plan, target, calls).await?;
    let asker = Asker {
        target,
        known,
        allowed,
        calls,
        brought: brought(plan),
        changing: &changing,
        defined: crds::defined(plan),
    };
    let questions: Vec<_> = plan
        .apply
        .iter()
        .filter(|planned| (planned.judged != Judged::Never || planned.served_as.is_some()) && !planned.is_settled)
        .map(|planned| async { (planned.object.id(), asker.ask(planned).await) }.boxed())
        .collect();
    let mut preflight = Preflight::default();
    let mut complaints = vec![];
    let mut answers = stream::iter(questions).buffered(AT_ONCE);
    while let Some((id, answer)) = answers.next().await {
        match answer {
            Ok(found) => preflight.note(id, found),
            Err(rejected) => complaints.push(rejected),
        }
    }
    preflight.changing.clone_from(&changing);
    match complaints.is_empty() {
        true => Ok(preflight),
        false => Err(together(complaints)),
    }
}

/// One complaint about all: the first category, and the first few sentences.
fn together(complaints: Vec<Rejected>) -> Rejected {
    // What could get better by itself must not hide what cannot, or it would be tried again for nothing.
    let hopeless = complaints.iter().find(|complaint| complaint.category.needs_a_change());
    let category = hopeless.unwrap_or(&complaints[0]).category;
    let shown: Vec<&str> = complaints.iter().take(SHOWN).map(|complaint| complaint.message.as_str()).collect();
    let mut message = shown.join("; ");
    if complaints.len() > SHOWN {
        message.push_str(&format!("; and {} more", complaints.len() - SHOWN));
    }
    Rejected { category, message }
}

struct Asker<'a> {
    target: &'a Target<'a>,
    known: &'a (dyn Fn(&ObjectId, &str) -> bool + Sync),
    allowed: Allowed,
    calls: &'a Calls,
    brought: HashSet<String>,
    changing: &'a HashSet<GroupKind>,
    /// Kinds that the release's CRDs define.
    defined: HashSet<GroupKind>,
}

impl Asker<'_> {
    async fn ask(&self, planned: &Planned) -> Result<Found, Rejected> {
        let id = planned.object.id();
        if planned.judged != Judged::Wholly || crds::is_of(&planned.object, self.changing) {
            self.check_owner(planned, &id).await?;
            return Ok(Found::Unjudged);
        }
        match self.calls.dry_run(planned).await {
            Ok(answer) if answer.is_new() => Ok(Found::New),
            Ok(answer) => {
                let uid = answer.object.metadata.uid.clone().unwrap_or_default();
                if answer.object.metadata.deletion_timestamp.is_some() {
                    let message = format!("{id} is being deleted; waiting until it is gone");
                    return Err(Rejected { category: Category::Waiting, message });
                }
                let is_adopted = !(self.known)(&id, &uid) && self.check_owner(planned, &id).await?;
                Ok(Found::There { is_adopted, is_helms: handover::handed_over(&answer.object.metadata).is_some() })
            }
            Err(error) => self.weigh(planned, &id, error).await,
        }
    }

    /// An object that we did not record: whose is it? Says whether it is taken from nobody.
    async fn check_owner(&self, planned: &Planned, id: &ObjectId) -> Result<bool, Rejected> {
        let kind = planned.served_as.as_ref().unwrap_or(&planned.kind);
        let live = self.calls.metadata(kind, id).await.map_err(|error| Rejected::about(id, &error))?;
        live.map_or(Ok(false), |live| check_claim(id, &live, self.target, self.allowed))
    }

    /// Whether an error speaks about the object or about something that is still to come.
    async fn weigh(&self, planned: &Planned, id: &ObjectId, error: Error) -> Result<Found, Rejected> {
        if self.is_excused(&error) {
            self.check_owner(planned, id).await?;
            return Ok(Found::Unjudged);
        }
        let complaint = Rejected::about(id, &error);
        // Its CRD went a moment ago, and comes again with the release.
        if complaint.category == Category::UnknownKind && crds::is_of(&planned.object, &self.defined) {
            return Ok(Found::Unjudged);
        }
        let is_of_object = matches!(complaint.category, Category::ImmutableField | Category::InvalidObject);
        let may_replace = self.allowed.replace && complaint.category == Category::ImmutableField && !holds_data(id);
        if self.allowed.leave && is_of_object && !may_replace {
            self.check_owner(planned, id).await?;
            let live = self.calls.metadata(&planned.kind, id).await.map_err(|error| Rejected::about(id, &error))?;
            // What is there stays; what is not there cannot be left as it is.
            return live.and_then(|live| live.uid).map(Found::Leave).ok_or(complaint);
        }
        if complaint.category != Category::ImmutableField {
            return Err(complaint);
        }
        // Immutable for us only if it is ours to change at all.
        self.check_owner(planned, id).await?;
        let live = self.calls.metadata(&planned.kind, id).await.map_err(|error| Rejected::about(id, &error))?;
        let Some(live) = live else { return Ok(Found::New) };
        let annotations = live.annotations.as_ref();
        let kept = is_kept(|key| annotations.and_then(|annotations| annotations.get(key)).map(String::as_str));
        if kept || holds_data(id) {
            // To make it again would lose what it holds, and nobody asked for that.
            return Err(complaint);
        }
        if !self.allowed.replace {
            let hint = "set the annotation helm.sdk.operatorframework.io/upgrade-force: \"true\" to delete it and make it again";
            return Err(Rejected { message: format!("{}; {hint}", complaint.message), ..complaint });
        }
        Ok(live.uid.map_or(Found::New, Found::Replace))
    }

    /// Whether an error may go away when the release's other parts are there.
    fn is_excused(&self, error: &Error) -> bool {
        let Error::Api(status) = error else { return false };
        let message = &status.message;
        // A refusal begins with the object's own name, which says nothing about what is missing.
        let cause = message.split_once("is forbidden: ").map_or(message.as_str(), |(_, cause)| cause);
        match status.code {
            400 => message.contains("does not support dry run"),
            // The webhook may be what this very release repairs.
            500 | 503 | 504 => message.contains("failed calling webhook"),
            // A missing permission does not come with the release, even if it names something that does.
            403 if message.contains("User \"") => false,
            403 | 404 => self.brought.iter().any(|name| mentions(cause, name)),
            _ => false,
        }
    }
}

/// Refuses an object that is there and that belongs to somebody else. Says whether it is taken from nobody.
pub fn check_claim(id: &ObjectId, live: &ObjectMeta, target: &Target<'_>, allowed: Allowed) -> Result<bool, Rejected> {
    match judge(live, target.release, target.namespace, target.owner) {
        Claim::Ours => Ok(false),
        Claim::Loose if allowed.adopt => Ok(true),
        Claim::Loose => Err(belongs(format!(
            "{id} exists and nobody says that it is theirs; delete it, or set the annotation chartwright.dev/adopt: \"true\" to take it over"
        ))),
        Claim::Foreign(who) => {
            Err(belongs(format!("{id} exists and belongs to {who}; give the release another name, or remove it there")))
        }
    }
}

/// Names of objects whose absence makes the API server refuse others.
fn brought(plan: &Plan) -> HashSet<String> {
    const NEEDED: [&str; 9] = [
        "Namespace",
        "CustomResourceDefinition",
        "PriorityClass",
        "ServiceAccount",
        "Role",
        "ClusterRole",
        "RuntimeClass",
        "StorageClass",
        "IngressClass",
    ];
    let needed = plan.apply.iter().filter(|planned| NEEDED.contains(&planned.object.kind()));
    needed.map(|planned| planned.object.name().to_owned()).chain(plan.hooked.iter().cloned()).collect()
}

/// Whether a name stands in a message as a whole word.
fn mentions(message: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '-' || c == '.';
    message.split(|c| !part_of_name(c)).any(|word| word.trim_matches('.') == name)
}

/// What the API server says about an object, short, and without a Secret's values.
pub fn complaint_about(id: &ObjectId, error: &Error) -> String {
    let sentence = sentence(error);
    let is_secret = id.kind == "Secret" && id.group.is_empty();
    let values = ["Invalid value:", ", got ", "Value:"].iter().filter_map(|mark| sentence.find(mark)).min();
    match values.filter(|_| is_secret) {
        Some(at) => format!("{} (value hidden)", sentence[..at].trim_end()),
        None => shortened(&sentence),
    }
}

fn belongs(message: String) -> Rejected {
    Rejected { category: Category::BelongsToAnother, message }
}

/// The API server quotes whole objects when it refuses an immutable field.
fn shortened(sentence: &str) -> String {
    const LONGEST: usize = 600;
    match sentence.char_indices().nth(LONGEST) {
        None => sentence.to_owned(),
        Some((end, _)) => {
            let tail = sentence.rsplit(": ").next().filter(|tail| tail.len() < 100).unwrap_or_default();
            format!("{} … {tail}", &sentence[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_mentioned_only_as_a_whole_word() {
        let message =
            r#"pods "p" is forbidden: error looking up service account default/web: serviceaccount "web" not found"#;
        assert!(mentions(message, "web"));
        assert!(!mentions(message, "we") && !mentions(message, "default-web"));
    }

    #[test]
    fn a_secrets_value_is_not_in_the_complaint() {
        let id = |kind: &str| ObjectId {
            group: "".into(),
            version: "v1".into(),
            kind: kind.into(),
            namespace: None,
            name: "a".into(),
        };
        let status = kube::core::Status::failure(
            "failed: .stringData.p: expected string, got &value.valueUnstructured{Value:1234}",
            "x",
        );
        let error = Error::Api(Box::new(status.with_code(500)));
        assert_eq!(complaint_about(&id("Secret"), &error), "failed: .stringData.p: expected string (value hidden)");
        assert!(complaint_about(&id("ConfigMap"), &error).contains("1234"));
    }

    #[test]
    fn many_complaints_are_told_together_and_the_hopeless_one_decides() {
        let complaint = |category, text: &str| Rejected { category, message: text.into() };
        let list = vec![
            complaint(Category::Unreachable, "a"),
            complaint(Category::InvalidObject, "b"),
            complaint(Category::Unreachable, "c"),
            complaint(Category::Unreachable, "d"),
        ];
        let all = together(list);
        assert_eq!(all.to_string(), "a; b; c; and 1 more");
        assert_eq!(all.category, Category::InvalidObject);
    }
}
