//! Who a custom resource is, what its release is called, what it asks for, and what it says about itself.
//!
//! Pure, apart from the clock. A reconcile and a preview of it answer these questions here, so that they cannot differ.

use std::collections::HashSet;

use kube::ResourceExt;
use serde_json::Value;

use crate::applyset::Contents;
use crate::chart::Chart;
use crate::cluster::clock;
use crate::course::{Noted, Request, Situation};
use crate::custom_resource::CustomResource;
use crate::generate::secret::Holder;
use crate::hooks::{self, Event};
use crate::plan::{Made, Owner, Target};
use crate::release::digest::Parts;
use crate::release::name::is_release_name;
use crate::release::{self, History, HookRecord, Own, OwnerMark};
use crate::status::HANDLED;
use crate::values::Values;
use crate::values::from::{MAX_REFERENCES, Reference, parse_annotation};
use crate::watches::{Crds, Lookup, OnFailure, Watch};
use crate::wishes::{self, RollbackTo, VALUES_FROM, Wishes};

/// operator-sdk's, so that a project can change sides in both directions.
pub const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";
pub const OLDER_FINALIZER: &str = "uninstall-helm-release";

pub struct Identity {
    pub owner: Owner,
    pub release: String,
    /// Where the release lives.
    pub namespace: String,
    pub wishes: Wishes,
    /// What it says about itself, without the manifest.
    pub status: Option<Value>,
    /// What the operator noted of its release.
    noted: Option<Home>,
    allow_empty: bool,
    adopts_releases: bool,
    crds: Crds,
    lookup: Lookup,
}

/// Which release a custom resource has, as the operator noted it where no tenant can write.
#[derive(Clone, Debug)]
pub struct Home {
    pub release: String,
    pub namespace: String,
}

impl Identity {
    /// `default_namespace` is where the releases of cluster-scoped resources live, unless the watch says it. What is `noted` decides the
    /// release's name: the author of a custom resource may be able to write its status, which therefore only names a release that
    /// `has_records`, by its namespace and name.
    pub fn of(
        cr: &CustomResource,
        watch: &Watch,
        default_namespace: &str,
        noted: Option<Home>,
        has_records: impl Fn(&str, &str) -> bool,
    ) -> Self {
        let owner = owner(cr, watch);
        let fallback = watch.release_namespace.as_deref().unwrap_or(default_namespace);
        let namespace = owner.namespace.clone().unwrap_or_else(|| fallback.to_owned());
        let status = cr.status();
        Identity {
            release: match &noted {
                Some(noted) => noted.release.clone(),
                None => release_name(watch, &owner, status.as_ref(), |name| has_records(&namespace, name)),
            },
            namespace,
            wishes: Wishes::of_all(cr.annotations(), watch),
            allow_empty: watch.allow_empty,
            adopts_releases: watch.adopt.allows_releases(),
            crds: watch.crds,
            lookup: watch.lookup,
            owner,
            status,
            noted,
        }
    }

    /// Why nothing may be done with the release: nobody says where it lives, or it would move. Only a release of a cluster-scoped
    /// resource can. Whoever writes the status can cause this refusal, and nothing else: what it says is never used as a place.
    pub fn misplaced(&self, watch: &Watch) -> Option<String> {
        if self.owner.namespace.is_some() {
            return None;
        }
        let told = self.told_namespace();
        let Some(namespace) = &watch.release_namespace else {
            let hint = match (told, self.told_revision()) {
                (Some(told), _) => format!("; the release {} lives in {told}", self.release),
                (None, Some(_)) => format!("; earlier versions kept releases in {}", self.namespace),
                (None, None) => String::new(),
            };
            return Some(format!(
                "the kind is cluster-scoped and its entry in watches.yaml has no `releaseNamespace`: have an administrator set it to the namespace that the releases live in{hint}"
            ));
        };
        told.filter(|told| told != namespace).map(|told| moved(&self.release, told, namespace))
    }

    /// The namespace that the release lives in, as the operator noted it or the status says.
    fn told_namespace(&self) -> Option<&str> {
        if let Some(noted) = &self.noted {
            return Some(&noted.namespace);
        }
        self.status.as_ref()?.pointer("/deployedRelease/namespace")?.as_str()
    }

    pub fn owner_mark(&self) -> OwnerMark {
        mark_of(&self.owner)
    }

    /// Whose generated values are kept, and where.
    pub fn holder(&self) -> Holder<'_> {
        let Identity { owner, release, namespace, wishes, .. } = self;
        Holder { owner, release, namespace, adoption: wishes.adopt }
    }

    /// `hooks` are those of the revision.
    pub fn target<'a>(&'a self, chart: &'a str, hooks: &[HookRecord]) -> Target<'a> {
        Target {
            release: &self.release,
            namespace: &self.namespace,
            chart,
            owner: &self.owner,
            allow_empty: self.allow_empty,
            crds: self.crds,
            may_own: !hooks::has(Event::PreDelete, hooks),
            made: Made::new(),
            adopting: HashSet::new(),
        }
    }

    /// Where values come from beside the spec, those that win last. None of it is used where the annotation cannot be: a release
    /// without half of its values may do harm.
    pub fn references(&self, cr: &CustomResource, watch: &Watch) -> Result<Vec<Reference>, String> {
        let Owner { gvk, namespace, name, .. } = &self.owner;
        let of_watch = watch.values_from.iter().map(|it| it.reference(&gvk.kind, namespace.as_deref(), name));
        let mut references: Vec<Reference> = of_watch.collect();
        let Some(text) = cr.annotations().get(VALUES_FROM) else { return Ok(references) };
        let room = MAX_REFERENCES.saturating_sub(references.len());
        let asked = parse_annotation(text, room).map_err(|error| format!("the annotation {VALUES_FROM}: {error}"))?;
        if !asked.is_empty() && !watch.values_from_annotation.unwrap_or(namespace.is_some()) {
            return Err(format!(
                "the annotation {VALUES_FROM} is not allowed for this kind: take it off, or set `valuesFromAnnotation: true` in watches.yaml"
            ));
        }
        references.extend(asked);
        Ok(references)
    }

    pub fn digest(&self, chart: &Chart, values: &Values) -> String {
        // Whoever widens the fence wants the chart to see more.
        let lookup = format!("lookup: {}", self.lookup.as_str());
        let options = match chart.asks.lookup && self.lookup != Lookup::default() {
            true => vec![lookup.as_str()],
            false => vec![],
        };
        release::digest(&Parts {
            chart: &chart.digest,
            release: &self.release,
            namespace: &self.namespace,
            values: &values.file_json(),
            options: &options,
        })
    }

    /// What decides the course of the release, beside its records.
    pub fn situation<'a>(
        &self,
        cr: &CustomResource,
        owner: &'a OwnerMark,
        wanted: &'a str,
        chart: &'a str,
        (noted, may_sign): (Noted, bool),
    ) -> Situation<'a> {
        Situation {
            owner,
            wanted,
            chart,
            request: self.request(),
            retries: self.wishes.retries,
            asked: wishes::asked(cr.annotations()),
            rolls_back: self.wishes.on_failure == OnFailure::Rollback,
            noted,
            may_sign,
            adopts_releases: self.adopts_releases,
            is_observed: self.is_observed(cr),
            is_new: is_new(cr),
            told: self.told_revision(),
            has_contents: contents(cr) != Contents::default(),
            now: clock::now(),
        }
    }

    /// Our part of a new record.
    pub fn own(&self, digest: String) -> Own {
        Own { digest, owner: self.owner_mark(), request: self.request().answer(), ..Own::default() }
    }

    /// What it says about going back.
    pub fn request(&self) -> Request {
        match self.wishes.rollback_to {
            RollbackTo::Unset => Request::Nothing,
            RollbackTo::Wrong(_) => Request::Unreadable,
            RollbackTo::Spec => Request::Spec,
            RollbackTo::Revision(revision) => Request::Revision(revision),
        }
    }

    /// The revision that the status says is deployed. Others than the operator may write the status.
    pub fn told_revision(&self) -> Option<u32> {
        let revision = self.status.as_ref()?.pointer("/deployedRelease/revision")?.as_u64()?;
        u32::try_from(revision).ok().filter(|revision| *revision <= release::LAST_REVISION)
    }

    /// The number of a revision that is made now. Numbers go on where the records went, so that a later one is always newer
    /// than what the status tells.
    pub fn next_revision(&self, history: &History) -> u32 {
        history.next_revision().max(self.told_revision().map_or(1, |told| told.saturating_add(1)))
    }

    /// The revision that an upgrade makes now. None where it is an install: for Helm, every install is the first revision.
    pub fn upgrade_to(&self, history: &History) -> Option<u32> {
        history.stood_before(history.next_revision()).then(|| self.next_revision(history))
    }

    /// The request for a full check that the status does not tell of yet.
    pub fn untold_request(&self) -> Option<&str> {
        let handled = self.status.as_ref().and_then(|status| status[HANDLED].as_str());
        self.wishes.requested_at.as_deref().filter(|asked| handled != Some(*asked))
    }

    /// Whether the status speaks of the spec as it is now.
    pub fn is_observed(&self, cr: &CustomResource) -> bool {
        let observed = self.status.as_ref().and_then(|status| status["observedGeneration"].as_i64());
        observed.is_some() && observed == cr.metadata.generation
    }
}

fn owner(cr: &CustomResource, watch: &Watch) -> Owner {
    Owner {
        gvk: watch.gvk.clone(),
        namespace: cr.namespace(),
        name: cr.name_any(),
        uid: cr.metadata.uid.clone().unwrap_or_default(),
    }
}

/// Under which the operator notes a custom resource's release.
pub fn owner_mark(cr: &CustomResource, watch: &Watch) -> OwnerMark {
    mark_of(&owner(cr, watch))
}

fn mark_of(owner: &Owner) -> OwnerMark {
    OwnerMark {
        group: owner.gvk.group.clone(),
        kind: owner.gvk.kind.clone(),
        namespace: owner.namespace.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    }
}

/// What to do about a release that would move.
pub fn moved(release: &str, from: &str, to: &str) -> String {
    format!(
        "the release {release} lives in the namespace {from}, but `releaseNamespace` in watches.yaml is {to} now, and a release does not move: set it back to {from}; to move the release, delete the custom resource while it is {from} (with the annotation chartwright.dev/deletion-policy: orphan its objects stay), then change the field and create the custom resource again"
    )
}

/// Whether nothing was ever deployed for a custom resource: the finalizer comes before the first record.
pub fn is_new(cr: &CustomResource) -> bool {
    !cr.finalizers().iter().any(|finalizer| finalizer == FINALIZER || finalizer == OLDER_FINALIZER)
}

/// What a custom resource says that its release contains.
pub fn contents(cr: &CustomResource) -> Contents {
    Contents::read(|key| cr.annotations().get(key).cloned())
}

/// A release keeps its name, also where the watch's template became another since. operator-sdk says it at the same place. Where
/// a kind has no status of its own, the author of a custom resource writes it: only the name of a release that exists counts, and whose
/// that is, its records decide.
fn release_name(watch: &Watch, owner: &Owner, status: Option<&Value>, exists: impl Fn(&str) -> bool) -> String {
    let told = status.and_then(|status| status.pointer("/deployedRelease/name")?.as_str());
    match told.filter(|name| is_release_name(name) && exists(name)) {
        Some(name) => name.to_owned(),
        None => watch.release_name.name(&owner.gvk.kind, owner.namespace.as_deref(), &owner.name),
    }
}
