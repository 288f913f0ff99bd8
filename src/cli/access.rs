//! How the commands reach the cluster: which one, which namespace, and the custom resource that is meant.

use std::path::PathBuf;

use anyhow::{Context, bail};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::named::{self, Known, Named};
use super::output::tell;
use crate::calls::Calls;
use crate::cluster::{self, Cluster};
use crate::custom_resource::CustomResource;
use crate::discovery::Kind;
use crate::error::sentence;
use crate::release::proof::PublicKey;
use crate::release::{History, NameTemplate, OwnerMark, Proof, Release, Signer, Store};
use crate::trust::key;

/// The name under which a person's wishes are written on a custom resource.
const MANAGER: &str = "chartwright-cli";

/// Which cluster, and where in it.
#[derive(Debug, clap::Args)]
pub struct Access {
    /// The namespace of the custom resource [default: the kubeconfig's]
    #[arg(short, long, value_name = "NAME", help_heading = "Cluster")]
    pub namespace: Option<String>,
    /// The kubeconfig [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
}

/// By what release records are verified.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Verification {
    /// The namespace that the operator runs in: its public key there verifies the release records
    #[arg(long, value_name = "NAME", env = "CHARTWRIGHT_OPERATOR_NAMESPACE", help_heading = "Cluster")]
    pub operator_namespace: Option<String>,
}

impl Access {
    pub async fn connect(&self) -> anyhow::Result<Session> {
        let access = cluster::Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        let Cluster { client, namespace, .. } = cluster::connect_by(&access).await?;
        let calls = Calls::new(client.clone());
        let known = calls.within(named::known(&client)).await;
        let known =
            known.map_err(|error| anyhow::anyhow!("cannot ask the API server for its kinds: {}", sentence(&error)))?;
        let namespace = self.namespace.clone().unwrap_or(namespace);
        Ok(Session { calls, namespace, known, signer: Signer::Unchecked, unverified: None })
    }

    /// The same, with records verified as far as the operator's public key can be read.
    pub async fn connect_verifying(&self, verification: &Verification) -> anyhow::Result<Session> {
        let session = self.connect().await?;
        Ok(match session.public_key(verification).await {
            Ok(key) => Session { signer: Signer::Verify(key), ..session },
            Err(why) => Session { unverified: Some(why), ..session },
        })
    }
}

/// A cluster that answers.
pub struct Session {
    pub calls: Calls,
    /// Where custom resources are looked for, and the releases of cluster-scoped ones.
    pub namespace: String,
    known: Vec<Known>,
    pub signer: Signer,
    /// Why no release record can be verified, where that was tried.
    pub unverified: Option<String>,
}

/// A custom resource, and how it is reached.
pub struct Found {
    pub kind: Kind,
    pub cr: CustomResource,
    api: Api<CustomResource>,
}

impl Session {
    /// # Errors
    /// Why there is none, as a clause about a record.
    async fn public_key(&self, verification: &Verification) -> Result<PublicKey, String> {
        let Some(namespace) = &verification.operator_namespace else {
            return Err("it cannot be verified without --operator-namespace".to_owned());
        };
        match self.calls.within(key::public(self.calls.client(), namespace)).await {
            Ok(Some(key)) => Ok(key),
            Ok(None) => Err(format!("it cannot be verified: there is no public key in the namespace {namespace}")),
            Err(error) => Err(format!(
                "it cannot be verified: cannot get the public key of the operator in {namespace}: {}",
                sentence(&error)
            )),
        }
    }

    /// The kinds of all groups but the core one.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.known.iter().map(|known| &known.kind)
    }

    pub fn kind(&self, written: &str) -> anyhow::Result<Kind> {
        Ok(named::find(written, &self.known)?.kind.clone())
    }

    /// The custom resource that a person named.
    pub async fn find(&self, named: &Named) -> anyhow::Result<Found> {
        self.find_as(&self.kind(&named.kind)?, &named.name).await
    }

    /// A custom resource of a kind that is known.
    pub async fn find_as(&self, kind: &Kind, name: &str) -> anyhow::Result<Found> {
        let place = if kind.namespaced { format!(" in the namespace {}", self.namespace) } else { String::new() };
        match self.get(kind, name, None).await? {
            Some(found) => Ok(found),
            None => bail!("there is no {} {name:?}{place}", kind.resource.kind),
        }
    }

    /// A custom resource, if it is there. It may be in another namespace than that of the session.
    pub async fn get(&self, kind: &Kind, name: &str, namespace: Option<&str>) -> anyhow::Result<Option<Found>> {
        let api = self.api(kind, namespace);
        let answer = self.calls.within(api.get_opt(name)).await;
        let cr = answer
            .map_err(|error| anyhow::anyhow!("cannot get the {} {name:?}: {}", kind.resource.kind, sentence(&error)))?;
        Ok(cr.map(|cr| Found { kind: kind.clone(), cr, api }))
    }

    pub fn api(&self, kind: &Kind, namespace: Option<&str>) -> Api<CustomResource> {
        match kind.namespaced {
            true => Api::namespaced_with(self.calls.client(), namespace.unwrap_or(&self.namespace), &kind.resource),
            false => Api::all_with(self.calls.client(), &kind.resource),
        }
    }

    /// All revisions of a custom resource's release.
    pub async fn history(&self, found: &Found) -> anyhow::Result<History> {
        self.history_of(&found.owner_mark(), &found.release()).await
    }

    /// All revisions of a release under this name, where those of this custom resource are.
    pub async fn history_of(&self, owner: &OwnerMark, release: &str) -> anyhow::Result<History> {
        let namespace = owner.namespace.as_ref().unwrap_or(&self.namespace);
        Ok(self.store(&owner.uid).history(namespace, release).await?)
    }

    /// The release records of the custom resource with this UID.
    pub fn store(&self, owner: &str) -> Store {
        Store::new(self.calls.clone()).signed_by(self.signer.clone(), owner)
    }

    /// Says on stderr which of these records the operator's public key does not verify. Nothing where there is no key.
    pub fn tell_unproven<'a>(&self, releases: impl IntoIterator<Item = &'a Release>) {
        // What another tool made does not claim to be the operator's.
        let claims = |release: &&Release| release.claimed.is_some() || release.digest_label().is_some();
        for sentence in releases.into_iter().filter(claims).filter_map(|release| self.unproven(release)) {
            tell(&format!("warning: {sentence}"));
        }
    }

    /// Why a record that was read does not count as the operator's.
    pub fn unproven(&self, release: &Release) -> Option<String> {
        match (&self.signer, &release.proof) {
            (Signer::Unchecked, _) => None,
            (_, Proof::Missing(doubt)) => Some(format!(
                "the record of revision {} of the release {}/{} is not proven: {}",
                release.revision,
                release.namespace,
                release.name,
                doubt.sentence()
            )),
            _ => None,
        }
    }

    /// Whether a record is proven to be the operator's. None where that is not known.
    pub fn is_proven(&self, release: &Release) -> Option<bool> {
        (!matches!(self.signer, Signer::Unchecked)).then(|| release.is_proven())
    }

    /// The same, and there must be some.
    pub async fn revisions(&self, found: &Found) -> anyhow::Result<History> {
        let history = self.history(found).await?;
        if let Some(who) = other_owner(&history, &found.owner_mark()) {
            bail!("the release {} belongs to {who}, not to the {}", found.release(), found.shown());
        }
        if history.is_empty() && found.was_deployed() {
            bail!(
                "the records of the release {} are gone; the conditions of the {} tell what the operator makes of that",
                found.release(),
                found.shown()
            );
        }
        if history.is_empty() {
            let (namespace, release) = (found.release_namespace(&self.namespace), found.release());
            // It lives where the operator does, and only the operator knows where that is.
            let hint =
                if found.kind.namespaced { "" } else { ", or the operator's namespace is another: name it with -n" };
            bail!("there is no release {namespace}/{release} of the {}; nothing was deployed yet{hint}", found.shown());
        }
        Ok(history)
    }

    /// Sets or removes an annotation of a custom resource.
    pub async fn annotate(&self, found: &Found, key: &str, value: Option<&str>) -> anyhow::Result<()> {
        // Another custom resource that took the name in the meantime has another UID, which cannot be changed.
        let patch = json!({"metadata": {"uid": found.cr.metadata.uid, "annotations": {key: value}}});
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
        let patch = Patch::Merge(patch);
        let written = self.calls.within(found.api.patch(&found.cr.name_any(), &params, &patch)).await;
        written
            .map(|_| ())
            .map_err(|error| anyhow::anyhow!("cannot annotate the {}: {}", found.shown(), sentence(&error)))
    }
}

/// What a custom resource's release is called: as its status tells, or as without a template.
pub fn release_name(status: &Value, owner: &OwnerMark) -> String {
    let told = status.pointer("/deployedRelease/name").and_then(Value::as_str).map(str::to_owned);
    told.unwrap_or_else(|| NameTemplate::default().name(&owner.kind, owner.namespace.as_deref(), &owner.name))
}

/// Whose release it is, if it is another's: two kinds may have custom resources of one name.
pub fn other_owner(history: &History, owner: &OwnerMark) -> Option<String> {
    // A record of another custom resource is not proven to be this one's, and says whose it is.
    let claims = || history.iter().rev().find_map(|release| release.claims_to_belong_to(owner));
    if history.belongs_to(owner).or_else(claims) != Some(false) {
        return None;
    }
    let own = |release: &'_ Release| release.own.as_ref().or(release.claimed.as_deref()).map(|own| own.owner.clone());
    let owner = history.iter().rev().find_map(own);
    Some(owner.map_or("another custom resource".to_owned(), |owner| owner.resource_name()))
}

impl Found {
    /// `Nginx default/web`
    pub fn shown(&self) -> String {
        let place = self.cr.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{} {place}{}", self.kind.resource.kind, self.cr.name_any())
    }

    pub fn owner_mark(&self) -> OwnerMark {
        OwnerMark {
            group: self.kind.resource.group.clone(),
            kind: self.kind.resource.kind.clone(),
            namespace: self.cr.namespace(),
            name: self.cr.name_any(),
            uid: self.cr.metadata.uid.clone().unwrap_or_default(),
        }
    }

    /// Whether its status tells of a release.
    pub fn was_deployed(&self) -> bool {
        self.cr.status().is_some_and(|status| !status["deployedRelease"].is_null())
    }

    /// As its status tells, or as it is called without a template.
    pub fn release(&self) -> String {
        release_name(&self.cr.status().unwrap_or_default(), &self.owner_mark())
    }

    pub fn release_namespace(&self, fallback: &str) -> String {
        self.cr.namespace().unwrap_or_else(|| fallback.to_owned())
    }

    /// The same custom resource as it is now.
    pub async fn again(&self, session: &Session) -> anyhow::Result<Found> {
        let answer = session.calls.within(self.api.get(&self.cr.name_any())).await;
        let cr = answer
            .map_err(|error| anyhow::anyhow!(sentence(&error)))
            .with_context(|| format!("cannot get the {}", self.shown()))?;
        Ok(Found { kind: self.kind.clone(), cr, api: self.api.clone() })
    }
}
