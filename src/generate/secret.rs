//! The Secret with the generated values of a release: whose it is, and what to write. Pure.
//!
//! It is called `<release>-generated` and belongs to the custom resource by an owner reference. It carries none of the marks of the release's
//! objects: no record names it, and no upgrade, prune or rollback touches it. An annotation says for which custom resource it is. A Secret of
//! that name that somebody else created is used only with the consent to adopt; it is not owned then, and stays when the custom resource goes.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use super::plan::{Held, Plan};
use super::rotation::Rotation;
use super::{GenerateError, Texts};
use crate::adoption::{self, ADOPTED};
use crate::applyset;
use crate::object::Object;
use crate::ownership::{self, Claim, is_same_resource, judge};
use crate::plan::{MANAGED_BY, Owner, is_kept};
use crate::preflight::Adoption;
use crate::values::from::Content;

/// For which custom resource the values are.
pub const GENERATED_FOR: &str = "chartwright.dev/generated-for";
/// Which rotations were done.
pub const ROTATED: &str = "chartwright.dev/rotated";
const INSTANCE: &str = "app.kubernetes.io/instance";

/// The name of a release's Secret.
pub fn name_for(release: &str) -> String {
    format!("{release}-generated")
}

/// As much of a Secret as was read.
#[derive(Clone, Default)]
pub struct Seen {
    pub marks: ObjectMeta,
    /// Of the keys that are wanted.
    pub contents: BTreeMap<String, Content>,
}

/// Whose values they are, and where they are kept.
#[derive(Clone, Copy)]
pub struct Holder<'a> {
    pub owner: &'a Owner,
    pub release: &'a str,
    pub namespace: &'a str,
    pub adoption: Adoption,
}

/// As much of the metadata as tells whose it is, and what was done.
pub fn marks(live: &ObjectMeta) -> ObjectMeta {
    let is_meant = |key: &str| {
        [GENERATED_FOR, ROTATED, ADOPTED].contains(&key)
            || is_kept(|it| (it == key).then(|| annotation(live, key)).flatten())
    };
    let mut marks = ownership::marks(live);
    let more = live.annotations.iter().flatten().filter(|(key, _)| is_meant(key));
    marks.annotations.get_or_insert_default().extend(more.map(|(key, text)| (key.clone(), text.clone())));
    marks
}

impl Holder<'_> {
    pub fn name(&self) -> String {
        name_for(self.release)
    }

    /// For messages.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.name())
    }

    /// Refuses objects that would be written over the Secret. Only where values are generated has the name a meaning.
    pub fn check<'o>(&self, mut objects: impl Iterator<Item = &'o Object>) -> Result<(), GenerateError> {
        let name = self.name();
        let is_inside = |namespace: Option<&str>| namespace.is_none_or(|it| it == self.namespace);
        let is_it = |it: &Object| it.kind() == "Secret" && it.api_version() == "v1" && it.name() == name;
        match objects.any(|it| is_it(it) && is_inside(it.namespace())) {
            true => Err(GenerateError::Rendered { secret: self.shown() }),
            false => Ok(()),
        }
    }

    /// What the Secret holds, if this custom resource may use it.
    pub fn held(&self, seen: &Seen, asked: &Rotation) -> Result<Held, GenerateError> {
        let secret = || self.shown();
        let mut texts = Texts::new();
        for (key, content) in &seen.contents {
            match content {
                Content::NoObject => return Ok(Held::default()),
                Content::Sensitive(found) => return Err(GenerateError::Sensitive { secret: secret(), found: *found }),
                _ => {}
            }
            if let Content::Text(text) = content
                && !text.is_empty()
            {
                texts.insert(key.clone(), text.to_string());
            }
        }
        let is_ours = self.is_ours(&seen.marks)?;
        if let Some((key, _)) = seen.contents.iter().find(|(_, content)| **content == Content::Binary) {
            return Err(GenerateError::NotText { secret: secret(), key: key.clone() });
        }
        let done = is_ours.then(|| Rotation::read(annotation(&seen.marks, ROTATED), asked));
        Ok(Held { texts, done })
    }

    /// Whether the Secret says that it is for this custom resource. If not, it is adopted.
    fn is_ours(&self, live: &ObjectMeta) -> Result<bool, GenerateError> {
        let foreign = |who: &str| Err(GenerateError::Foreign { secret: self.shown(), who: who.to_owned() });
        let labels = live.labels.iter().flatten();
        if labels.into_iter().any(|(key, text)| key == applyset::PART_OF || key == MANAGED_BY && text == "Helm") {
            return foreign("a release, which renders it");
        }
        let is_marked = self.is_marked(live);
        let controller = ownership::controller(live);
        match judge(live, self.release, self.namespace, self.owner) {
            Claim::Ours => Ok(is_marked),
            // An earlier life of this custom resource.
            Claim::Foreign(_) if is_marked && controller.is_some_and(|it| is_same_resource(it, self.owner)) => Ok(true),
            Claim::Foreign(who) => foreign(&who),
            Claim::Helm => foreign("a Helm release"),
            Claim::Loose if is_marked => Ok(true),
            Claim::Loose => match (annotation(live, GENERATED_FOR), self.adoption) {
                (Some(who), _) => foreign(who),
                (None, Adoption::Asked) => Ok(false),
                (None, adoption) => Err(GenerateError::Loose { secret: self.shown(), adoption }),
            },
        }
    }

    fn is_marked(&self, live: &ObjectMeta) -> bool {
        annotation(live, GENERATED_FOR) == Some(&self.mark())
    }

    /// `App.example.com shop/web`
    fn mark(&self) -> String {
        format!("{} {}", ownership::type_of(self.owner), ownership::place_of(self.owner))
    }

    /// Whether the metadata of an existing Secret is as it should be.
    pub fn is_tied(&self, live: &ObjectMeta) -> bool {
        let is_owned = ownership::controller(live).is_some_and(|it| it.uid == self.owner.uid);
        self.is_marked(live) && is_owned == self.may_own(live)
    }

    /// What was there before, and what somebody wants to keep, outlives the custom resource.
    pub fn may_own(&self, live: &ObjectMeta) -> bool {
        let is_adopted = adoption::is_marked(live) || ownership::controller(live).is_none() && !self.is_marked(live);
        !is_adopted && !is_kept(|key| annotation(live, key))
    }

    /// Whether the Secret goes with the custom resource.
    pub fn goes_with_it(&self, live: &ObjectMeta) -> bool {
        self.is_ours(live).is_ok_and(|is_ours| is_ours) && self.may_own(live)
    }

    /// A new Secret.
    pub fn created(&self, plan: &Plan<'_>, texts: &Texts) -> Value {
        let mut annotations = Map::from_iter([(GENERATED_FOR.to_owned(), Value::from(self.mark()))]);
        annotations.extend(plan.done.note().map(|note| (ROTATED.to_owned(), note.into())));
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self.name(),
                "namespace": self.namespace,
                "labels": {MANAGED_BY: "chartwright", INSTANCE: self.release},
                "annotations": annotations,
                "ownerReferences": [self.reference()],
            },
            "type": "Opaque",
            "data": encoded(texts),
        })
    }

    /// What to change of an existing one, as a merge patch that is refused if somebody else changed it meanwhile.
    pub fn changed(&self, live: &ObjectMeta, plan: &Plan<'_>, texts: &Texts) -> Value {
        let mut annotations = Map::from_iter([(GENERATED_FOR.to_owned(), Value::from(self.mark()))]);
        annotations.extend(plan.done.note().map(|note| (ROTATED.to_owned(), note.into())));
        let may_own = self.may_own(live);
        if !may_own && !self.is_marked(live) {
            annotations.insert(ADOPTED.to_owned(), format!("{}/{}", self.namespace, self.release).into());
        }
        json!({
            "metadata": {
                "resourceVersion": live.resource_version,
                "annotations": annotations,
                "ownerReferences": self.references(live, may_own),
            },
            "data": encoded(texts),
        })
    }

    /// The same for a Secret that is left behind: nothing of it may go with the custom resource.
    pub fn freed(&self, live: &ObjectMeta) -> Value {
        json!({"metadata": {
            "resourceVersion": live.resource_version,
            "ownerReferences": self.references(live, false),
        }})
    }

    /// The owner references as they should be: those of others stay.
    fn references(&self, live: &ObjectMeta, may_own: bool) -> Vec<Value> {
        let is_other = |it: &&OwnerReference| !is_same_resource(it, self.owner);
        let others = live.owner_references.iter().flatten().filter(is_other).map(|it| json!(it));
        others.chain(may_own.then(|| self.reference())).collect()
    }

    /// It blocks nothing: whoever deletes the custom resource need not wait for it.
    fn reference(&self) -> Value {
        json!({
            "apiVersion": self.owner.gvk.api_version(),
            "kind": self.owner.gvk.kind,
            "name": self.owner.name,
            "uid": self.owner.uid,
            "controller": true,
            "blockOwnerDeletion": false,
        })
    }
}

fn encoded(texts: &Texts) -> BTreeMap<&str, ByteString> {
    texts.iter().map(|(key, text)| (key.as_str(), ByteString(text.clone().into_bytes()))).collect()
}

fn annotation<'a>(live: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    live.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;

    use super::super::tests::text;
    use super::*;
    use crate::plan::{RELEASE_NAME, RELEASE_NAMESPACE};
    use crate::sensitive::Sensitive;

    fn owner(uid: &str) -> Owner {
        Owner {
            gvk: GroupVersionKind::gvk("g.io", "v1", "App"),
            namespace: Some("shop".into()),
            name: "web".into(),
            uid: uid.into(),
        }
    }

    fn holder(owner: &Owner, adoption: Adoption) -> Holder<'_> {
        Holder { owner, release: "web", namespace: "shop", adoption }
    }

    fn seen(metadata: Value, content: Content) -> Seen {
        let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        Seen { marks: marks(&metadata), contents: [("a".to_owned(), content)].into() }
    }

    fn text_of(metadata: Value, adoption: Adoption) -> Result<Held, String> {
        let owner = owner("u");
        let held = holder(&owner, adoption).held(&seen(metadata, Content::Text("x".into())), &Rotation::default());
        held.map_err(|error| error.to_string())
    }

    fn created(uid: &str) -> Value {
        let owner = owner(uid);
        let generators = [text("a", "a")];
        let plan = Plan::of(&generators, &Held::default(), &Rotation::default(), None);
        holder(&owner, Adoption::NotAllowed).created(&plan, &Texts::from([("a".into(), "x".into())]))["metadata"].take()
    }

    fn controlled(mut metadata: Value, kind: &str, uid: &str) -> Value {
        metadata["ownerReferences"] =
            json!([{"apiVersion": "g.io/v1", "kind": kind, "name": "web", "uid": uid, "controller": true}]);
        metadata
    }

    #[test]
    fn its_own_secret_is_used_also_without_its_owner_reference_and_by_a_later_life() {
        let held = text_of(created("u"), Adoption::NotAllowed).unwrap();
        assert_eq!((held.texts["a"].as_str(), held.done), ("x", Some(Rotation::default())));
        let mut loose = created("u");
        loose["ownerReferences"].take();
        assert!(text_of(loose, Adoption::NotAllowed).unwrap().done.is_some());
        assert!(text_of(created("earlier"), Adoption::NotAllowed).unwrap().done.is_some());
    }

    #[test]
    fn a_secret_of_somebody_else_is_refused_whatever_is_asked_for() {
        let helms =
            json!({"labels": {MANAGED_BY: "Helm"}, "annotations": {RELEASE_NAME: "web", RELEASE_NAMESPACE: "shop"}});
        for (metadata, expected) in [
            (controlled(json!({}), "Other", "v"), "belongs to Other web"),
            (controlled(json!({}), "App", "v"), "belongs to App web"),
            (controlled(created("u"), "Other", "v"), "belongs to Other web"),
            (json!({"annotations": {GENERATED_FOR: "App.g.io shop/other"}}), "belongs to App.g.io shop/other"),
            (helms, "belongs to a release, which renders it"),
            (json!({"labels": {applyset::PART_OF: "applyset-x"}}), "belongs to a release"),
        ] {
            for adoption in [Adoption::NotAllowed, Adoption::Asked] {
                let message = text_of(metadata.clone(), adoption).unwrap_err();
                assert!(message.contains(expected) && message.contains("shop/web-generated"), "{message}");
            }
        }
    }

    #[test]
    fn a_secret_of_nobody_is_used_with_consent_and_no_rotation_that_was_asked_for_before_counts() {
        for (adoption, expected) in [(Adoption::NotAllowed, "administrator"), (Adoption::NotAsked, "adopt: \"true\"")] {
            let message = text_of(json!({}), adoption).unwrap_err();
            assert!(message.contains("was not created by this operator") && message.contains(expected), "{message}");
        }
        let held = text_of(json!({}), Adoption::Asked).unwrap();
        assert_eq!((held.texts["a"].as_str(), held.done), ("x", None));
    }

    #[test]
    fn records_tokens_and_bytes_are_refused_and_what_is_empty_counts_as_missing() {
        let owner = owner("u");
        let held = |content: Content| {
            let holder = holder(&owner, Adoption::Asked);
            holder.held(&seen(json!({}), content), &Rotation::default()).map_err(|error| error.to_string())
        };
        assert!(held(Content::Sensitive(Sensitive::Token)).unwrap_err().contains("which is a token"));
        assert!(held(Content::Binary).unwrap_err().contains("is not text"));
        assert!(held(Content::Text("".into())).unwrap().texts.is_empty());
        assert!(held(Content::NoKey).unwrap().texts.is_empty());
        assert_eq!(held(Content::NoObject).unwrap(), Held::default());
    }

    #[test]
    fn a_chart_cannot_render_it() {
        let owner = owner("u");
        let check = |namespace: &str, name: &str, kind: &str| {
            let metadata = json!({"name": name, "namespace": Some(namespace).filter(|it| !it.is_empty())});
            let object = Object::new(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap();
            holder(&owner, Adoption::Asked).check([&object].into_iter()).is_ok()
        };
        assert!(!check("shop", "web-generated", "Secret") && !check("", "web-generated", "Secret"));
        assert!(check("other", "web-generated", "Secret") && check("shop", "web", "Secret"));
        assert!(check("shop", "web-generated", "ConfigMap"));
    }

    #[test]
    fn what_is_adopted_or_kept_is_not_owned() {
        let owner = owner("u");
        let holder = holder(&owner, Adoption::Asked);
        let generators = [text("a", "a")];
        let plan = Plan::of(&generators, &Held::default(), &Rotation::default(), None);
        let changed = |metadata: Value| {
            let live = serde_json::from_value(metadata).unwrap();
            holder.changed(&live, &plan, &Texts::new())["metadata"].take()
        };
        let adopted = changed(json!({"resourceVersion": "7"}));
        assert_eq!(adopted["annotations"][ADOPTED], "shop/web");
        assert_eq!((&adopted["ownerReferences"], &adopted["resourceVersion"]), (&json!([]), &json!("7")));
        assert_eq!(changed(adopted)["ownerReferences"], json!([]), "nor later");
        let mut kept = created("u");
        kept["annotations"]["helm.sh/resource-policy"] = "keep".into();
        let live: ObjectMeta = serde_json::from_value(kept.clone()).unwrap();
        assert!(!holder.is_tied(&live) && !holder.is_tied(&marks(&live)) && !holder.goes_with_it(&live));
        assert_eq!(changed(kept)["ownerReferences"], json!([]));
    }

    #[test]
    fn an_owner_reference_that_is_missing_or_old_is_put_right_beside_those_of_others() {
        let owner = owner("u");
        let holder = holder(&owner, Adoption::NotAllowed);
        let mut metadata = created("earlier");
        let other = json!({"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x"});
        metadata["ownerReferences"].as_array_mut().unwrap().push(other);
        let live: ObjectMeta = serde_json::from_value(metadata).unwrap();
        assert!(!holder.is_tied(&live) && holder.goes_with_it(&live));
        let names = |value: &Value| value.as_array().unwrap().iter().map(|it| it["uid"].clone()).collect::<Vec<_>>();
        let generators = [];
        let plan = Plan::of(&generators, &Held::default(), &Rotation::default(), None);
        assert_eq!(names(&holder.changed(&live, &plan, &Texts::new())["metadata"]["ownerReferences"]), ["x", "u"]);
        assert_eq!(names(&holder.freed(&live)["metadata"]["ownerReferences"]), ["x"]);
        let fine: ObjectMeta = serde_json::from_value(created("u")).unwrap();
        assert!(holder.is_tied(&fine) && holder.is_tied(&marks(&fine)));
    }
}
