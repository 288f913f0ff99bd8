//! Asking the API server about everything before the first write, so that a bad render changes nothing.
//!
//! Every object that can be judged is applied as a dry run. What the API server says about the object itself rejects the
//! whole render. What may only be so because the same release brings the missing part is no reason: the real apply
//! decides then. An object that exists and belongs to somebody else is never taken.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use futures::{FutureExt, StreamExt, stream};
use kube::Error;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::adoption;
use crate::apply::crds::{self, GroupKind};
use crate::apply::handover;
use crate::apply::replace::{self, is_built_in, is_precious};
use crate::calls::Calls;
use crate::discovery::Kind;
use crate::error::{Category, of_kube, sentence};
use crate::object::{Object, ObjectId};
use crate::ownership::{Claim, judge};
use crate::plan::{Judged, MANAGED_BY, Plan, Planned, Target, is_kept, unmarked};
use crate::protected::rights;
use crate::sensitive::{Labels, NoObject, Sensitive};

/// How many objects are asked about at once for one release.
const AT_ONCE: usize = 8;
/// How many complaints a person is shown.
const SHOWN: usize = 3;

/// What the custom resource allows beyond the usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    pub adopt: Adoption,
    /// Whether the operator lives in the release's namespace. It adopts no Roles and RoleBindings there: they may be its own.
    pub is_operators: bool,
    /// Make objects again where a change is not possible otherwise.
    pub replace: bool,
    /// Leave objects as they are where a change is not possible. So it is when a revision is gone back to, or taken over:
    /// a claim or a cluster IP is worth more than the wording of an old manifest.
    pub leave: bool,
}

/// Whether an object that exists and belongs to nobody becomes part of the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// The watch does not allow it, whatever the custom resource says.
    #[default]
    NotAllowed,
    /// The watch allows it, and the custom resource does not ask for it.
    NotAsked,
    /// The watch allows it, and the custom resource asks for it.
    Asked,
}

impl Adoption {
    /// How to get an object into the release, for messages.
    pub fn advice(self) -> &'static str {
        match self {
            Adoption::NotAllowed => {
                "delete it, or ask an administrator to set `adopt: objects` in watches.yaml, which makes the annotation chartwright.dev/adopt: \"true\" take effect"
            }
            Adoption::NotAsked | Adoption::Asked => {
                "delete it, or set the annotation chartwright.dev/adopt: \"true\" to take it over"
            }
        }
    }
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
    /// There already, and still to be marked as adopted.
    pub adopted: HashSet<ObjectId>,
    /// Marked as adopted, by this release or an earlier one.
    pub marked: HashSet<ObjectId>,
    /// Not there yet.
    pub new: HashSet<ObjectId>,
    /// Seen in the cluster. An object that nobody can ask for yet is neither new nor there.
    pub there: HashSet<ObjectId>,
    /// Kinds that this release makes others of: nobody can say yet what their objects may be.
    pub changing: HashSet<GroupKind>,
}

impl Preflight {
    /// All objects of the plan that existed before the release.
    pub fn all_adopted(&self) -> HashSet<ObjectId> {
        self.adopted.union(&self.marked).cloned().collect()
    }

    fn note(&mut self, id: ObjectId, found: Found) {
        match found {
            Found::New => drop(self.new.insert(id)),
            Found::Replace(uid) => drop(self.replace.insert(id, uid)),
            Found::Leave(uid) => drop(self.leave.insert(id, uid)),
            Found::There { is_helms } => {
                if is_helms {
                    self.hand_over.insert(id);
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
            "{id} existed before the release, but the chart asked for it with `lookup` and was not shown it, so it would be overwritten; set `lookup: namespace` in watches.yaml to have what is in it used (a token is never shown), or delete it"
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
        seen: Mutex::default(),
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
    drop(answers);
    preflight.changing.clone_from(&changing);
    asker.finish(plan, &mut preflight);
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
    seen: Mutex<Adoptions>,
}

/// What was found out about adopted objects.
#[derive(Default)]
struct Adoptions {
    /// Adopted right now.
    new: HashSet<ObjectId>,
    marked: HashSet<ObjectId>,
    /// Whatever was found.
    there: HashSet<ObjectId>,
}

impl Asker<'_> {
    async fn ask(&self, planned: &Planned) -> Result<Found, Rejected> {
        let id = planned.object.id();
        if planned.judged != Judged::Wholly || crds::is_of(&planned.object, self.changing) {
            self.check_owner(planned, &id, None).await?;
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
                check_content(&planned.object, &id, &answer.object)?;
                self.note(&id, &answer.object.metadata);
                if !(self.known)(&id, &uid) {
                    self.check_owner(planned, &id, Some(&answer.object)).await?;
                }
                Ok(Found::There { is_helms: handover::handed_over(&answer.object.metadata).is_some() })
            }
            Err(error) => self.weigh(planned, &id, error).await,
        }
    }

    /// An object that we did not record: whose is it? `answer` is that of a dry run.
    async fn check_owner(
        &self,
        planned: &Planned,
        id: &ObjectId,
        answer: Option<&DynamicObject>,
    ) -> Result<(), Rejected> {
        let kind = planned.served_as.as_ref().unwrap_or(&planned.kind);
        let live = self.calls.metadata(kind, id).await.map_err(|error| Rejected::about(id, &error))?;
        let Some(live) = live else { return Ok(()) };
        // All that is known where the API server cannot judge the object.
        check_sensitive(id, Sensitive::of_metadata(id, &live))?;
        if check_claim(id, &live, self.target, self.allowed)? {
            if self.is_outside(id) {
                self.check_unchanged(planned, kind, id, answer).await?;
            }
            self.seen().new.insert(id.clone());
        }
        self.note(id, &live);
        Ok(())
    }

    fn is_outside(&self, id: &ObjectId) -> bool {
        id.namespace.as_deref() != Some(self.target.namespace)
    }

    /// Whoever writes Secrets in the release's namespace can write the record of a Helm release that names objects outside of it. So those
    /// are adopted only as they are.
    async fn check_unchanged(
        &self,
        planned: &Planned,
        kind: &Kind,
        id: &ObjectId,
        answer: Option<&DynamicObject>,
    ) -> Result<(), Rejected> {
        let about = |error| Rejected::about(id, &error);
        let live = self.calls.get(kind, id).await.map_err(about)?.map(content);
        let answer = match answer {
            Some(answer) => answer.clone(),
            None => self.calls.dry_run(planned).await.map_err(about)?.object,
        };
        match live == Some(content(answer)) {
            true => Ok(()),
            false => Err(Rejected {
                category: Category::AdoptionNotAllowed,
                message: format!(
                    "{id} is outside of the release's namespace, and adopting the Helm release would change it; make the chart and the values match the object, adopt the release, and change the object afterwards"
                ),
            }),
        }
    }

    fn note(&self, id: &ObjectId, live: &ObjectMeta) {
        let mut seen = self.seen();
        seen.there.insert(id.clone());
        if adoption::is_marked(live) {
            seen.marked.insert(id.clone());
        }
    }

    fn seen(&self) -> MutexGuard<'_, Adoptions> {
        // A poisoned lock still holds what was seen.
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether an object existed before the release: then it is not deleted to be made again.
    fn is_adopted(&self, planned: &Planned, id: &ObjectId, live: &ObjectMeta) -> bool {
        planned.is_adopted || adoption::is_marked(live) || self.seen().new.contains(id)
    }

    fn finish(self, plan: &Plan, preflight: &mut Preflight) {
        let seen = self.seen.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Releases of earlier versions say it in their record only.
        let unmarked = plan.apply.iter().filter(|planned| planned.is_adopted && !planned.is_settled);
        let unmarked = unmarked.map(|planned| planned.object.id()).filter(|id| !preflight.new.contains(id));
        preflight.adopted = seen.new.into_iter().chain(unmarked).filter(|id| !seen.marked.contains(id)).collect();
        preflight.marked = seen.marked;
        preflight.there = seen.there;
    }

    /// Whether an error speaks about the object or about something that is still to come.
    async fn weigh(&self, planned: &Planned, id: &ObjectId, error: Error) -> Result<Found, Rejected> {
        if self.is_excused(&error) {
            self.check_owner(planned, id, None).await?;
            return Ok(Found::Unjudged);
        }
        let complaint = Rejected::about(id, &error);
        // Its CRD went a moment ago, and comes again with the release.
        if complaint.category == Category::UnknownKind && crds::is_of(&planned.object, &self.defined) {
            return Ok(Found::Unjudged);
        }
        let is_of_object = matches!(complaint.category, Category::ImmutableField | Category::InvalidObject);
        let may_replace = self.allowed.replace
            && complaint.category == Category::ImmutableField
            && !is_precious(id)
            && !planned.is_adopted;
        if self.allowed.leave && is_of_object && !may_replace {
            self.check_owner(planned, id, None).await?;
            let live = self.calls.metadata(&planned.kind, id).await.map_err(|error| Rejected::about(id, &error))?;
            // What is there stays; what is not there cannot be left as it is.
            return live.and_then(|live| live.uid).map(Found::Leave).ok_or(complaint);
        }
        if complaint.category != Category::ImmutableField {
            return Err(complaint);
        }
        // Immutable for us only if it is ours to change at all.
        self.check_owner(planned, id, None).await?;
        let live = self.calls.get(&planned.kind, id).await.map_err(|error| Rejected::about(id, &error))?;
        let Some(live) = live else { return Ok(Found::New) };
        let Some(uid) = live.metadata.uid.clone() else { return Ok(Found::New) };
        let annotations = live.metadata.annotations.as_ref();
        let kept = is_kept(|key| annotations.and_then(|annotations| annotations.get(key)).map(String::as_str));
        if kept || is_precious(id) || self.is_adopted(planned, id, &live.metadata) {
            // To make it again would lose what it holds, and nobody asked for that.
            return match self.allowed.leave {
                true => Ok(Found::Leave(uid)),
                false if is_built_in(&id.group) => Err(complaint),
                false => {
                    let hint = "the operator does not delete a custom resource to create it again, since its controller may delete data with it: if nothing is lost, delete it yourself";
                    Err(Rejected { message: format!("{}; {hint}", complaint.message), ..complaint })
                }
            };
        }
        if !self.allowed.replace {
            let hint = "set the annotation helm.sdk.operatorframework.io/upgrade-force: \"true\" to delete it and make it again";
            return Err(Rejected { message: format!("{}; {hint}", complaint.message), ..complaint });
        }
        if live.metadata.deletion_timestamp.is_some() {
            return Ok(Found::Replace(uid));
        }
        match replace::check(planned, &live, self.calls).await {
            Ok(_) => Ok(Found::Replace(uid)),
            // It is checked again right before the deletion, when the release's other parts are there.
            Err(why) if why.refusal().is_some_and(|error| self.is_excused(error)) => Ok(Found::Replace(uid)),
            Err(_) if self.allowed.leave => Ok(Found::Leave(uid)),
            Err(why) => Err(Rejected { category: why.category(), message: why.to_string() }),
        }
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

/// What an apply leaves as it is may make a record or a token of an object that looks harmless in the chart.
fn check_content(planned: &Object, id: &ObjectId, merged: &DynamicObject) -> Result<(), Rejected> {
    let labels = merged.metadata.labels.as_ref().map_or(Labels::None, Labels::Map);
    let secret_type = merged.data.get("type").and_then(Value::as_str);
    let what = Sensitive::of(&id.group, &id.kind, secret_type, &id.name, &labels);
    match what {
        Some(what) if what.may_be_rendered() && Sensitive::of_object(planned).is_none() => Err(Rejected {
            category: Category::NotAllowed,
            message: format!(
                "{id} exists and is {}, which the chart does not say; give the object of the chart another name",
                what.as_str()
            ),
        }),
        what => check_sensitive(id, what),
    }
}

fn check_sensitive(id: &ObjectId, what: Option<Sensitive>) -> Result<(), Rejected> {
    match what.filter(|what| !what.may_be_rendered()) {
        Some(what) => Err(Rejected {
            category: Category::NotAllowed,
            message: NoObject { id: Box::new(id.clone()), what }.to_string(),
        }),
        None => Ok(()),
    }
}

/// Refuses an object that is there and that belongs to somebody else. Says whether it is adopted.
pub fn check_claim(id: &ObjectId, live: &ObjectMeta, target: &Target<'_>, allowed: Allowed) -> Result<bool, Rejected> {
    match judge(live, target.release, target.namespace, target.owner) {
        Claim::Ours => Ok(false),
        Claim::Helm if target.adopting.contains(&id.key()) => Ok(true),
        Claim::Helm if has_made(id, live, target) => Ok(false),
        Claim::Helm => Err(belongs(format!(
            "{id} exists and belongs to a Helm release of the same name that this operator did not install; uninstall that release, give the custom resource another name, or, if Helm left the object behind, delete it or remove its label {MANAGED_BY} so that it belongs to nobody"
        ))),
        Claim::Loose if id.namespace.as_deref() != Some(target.namespace) => Err(belongs(format!(
            "{id} exists and nobody says that it is theirs; a release adopts objects in its own namespace only: delete it, or give the object of the chart another name"
        ))),
        Claim::Loose if allowed.is_operators && id.group == rights::GROUP => Err(belongs(format!(
            "{id} exists in the operator's namespace and nobody says that it is theirs; no release adopts roles there: delete it, or give the object of the chart another name"
        ))),
        Claim::Loose if allowed.adopt == Adoption::Asked => Ok(true),
        Claim::Loose => {
            Err(belongs(format!("{id} exists and nobody says that it is theirs; {}", allowed.adopt.advice())))
        }
        Claim::Foreign(who) => {
            Err(belongs(format!("{id} exists and belongs to {who}; give the release another name, or remove it there")))
        }
    }
}

/// What a chart decides: all but the status and what marks or identifies an object.
fn content(object: DynamicObject) -> (Value, Value, Value) {
    let mut value = unmarked(serde_json::to_value(object).unwrap_or(Value::Null));
    let mut metadata = value["metadata"].take();
    let (labels, annotations) = (metadata["labels"].take(), metadata["annotations"].take());
    if let Some(parts) = value.as_object_mut() {
        parts.retain(|part, _| part != "metadata" && part != "status");
    }
    (value, labels, annotations)
}

/// Whether a record of this operator names the object. In the release's namespace another object may have taken its name.
pub fn has_made(id: &ObjectId, live: &ObjectMeta, target: &Target<'_>) -> bool {
    let is_outside = id.namespace.as_deref() != Some(target.namespace);
    target.made.get(&id.key()).is_some_and(|uid| uid.is_none() || is_outside || *uid == live.uid)
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
    use kube::core::GroupVersionKind;
    use serde_json::json;

    use super::*;
    use crate::plan::Owner;
    use crate::watches::Crds;

    #[test]
    fn a_chart_gets_no_token_or_record_by_leaving_out_what_it_is() {
        let object = |secret_type: Option<&str>| {
            let mut value = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
            if let Some(secret_type) = secret_type {
                value["type"] = secret_type.into();
            }
            Object::new(value).unwrap()
        };
        let check = |planned: Option<&str>, live: &str| {
            let (planned, live) = (object(planned), object(Some(live)));
            let live: DynamicObject = serde_json::from_value(live.value().clone()).unwrap();
            check_content(&planned, &planned.id(), &live).err().map(|rejected| rejected.category)
        };
        const TOKEN: &str = "kubernetes.io/service-account-token";
        assert_eq!(check(None, "Opaque"), None);
        assert_eq!(check(Some(TOKEN), TOKEN), None, "the chart says it");
        for live in [TOKEN, "helm.sh/release.v1", "chartwright.dev/public-key"] {
            assert_eq!(check(None, live), Some(Category::NotAllowed), "{live}");
        }
    }

    #[test]
    fn roles_of_the_operators_namespace_are_not_adopted() {
        let live: ObjectMeta = serde_json::from_value(json!({"name": "a", "namespace": "here"})).unwrap();
        let owner = Owner {
            gvk: GroupVersionKind::gvk("g.io", "v1", "App"),
            namespace: Some("here".into()),
            name: "web".into(),
            uid: "u".into(),
        };
        let target = Target {
            release: "web",
            namespace: "here",
            chart: "app",
            owner: &owner,
            allow_empty: false,
            crds: Crds::Create,
            may_own: true,
            made: Default::default(),
            adopting: Default::default(),
        };
        let check = |group: &str, is_operators| {
            let id = ObjectId {
                group: group.into(),
                version: "v1".into(),
                kind: "Role".into(),
                namespace: Some("here".into()),
                name: "a".into(),
            };
            check_claim(&id, &live, &target, Allowed { adopt: Adoption::Asked, is_operators, ..Allowed::default() })
                .is_ok()
        };
        assert!(check(rights::GROUP, false) && check("apps", true));
        assert!(!check(rights::GROUP, true));
    }

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
