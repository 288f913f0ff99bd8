//! Consent to what a command would do with the rights of the person who runs it.
//!
//! A release record is a Secret that everybody with write access to the namespace can change. What it asks for is not what the
//! chart asks for until somebody has looked. So a command that acts on a record collects [`Finding`]s first, and
//! [`Consent::obtain`] shows them and refuses unless the flag of each reason is set or the person agrees on a terminal.

use anyhow::bail;

use super::access::Session;
use super::asking::is_agreed;
use super::output::tell;
use crate::object::{Object, ObjectId};
use crate::release::{Proof, Release, Signer};

/// The flags by which a person consents in advance to what a command creates.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Consent {
    /// Allow objects that are cluster-scoped or in another namespace than the release
    #[arg(long)]
    pub allow_outside_namespace: bool,
    #[command(flatten)]
    pub records: RecordConsent,
}

/// The flag of a command that uses a release record and creates nothing.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct RecordConsent {
    /// Allow a release record whose signature cannot be verified
    #[arg(long)]
    pub allow_unproven: bool,
}

/// Why a command must not act without consent. Each has a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    OutsideNamespace,
    Unproven,
}

impl Reason {
    fn flag(self) -> &'static str {
        match self {
            Reason::OutsideNamespace => "--allow-outside-namespace",
            Reason::Unproven => "--allow-unproven",
        }
    }
}

/// Something that needs consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub object: String,
    pub why: String,
    pub reason: Reason,
}

impl Consent {
    /// Shows the findings. Without consent this fails, and the caller must not have acted before.
    ///
    /// # Arguments
    /// `act`: what the command would do with these objects, as in "create these objects with your rights".
    pub fn obtain(&self, act: &str, findings: &[Finding]) -> anyhow::Result<()> {
        if findings.is_empty() {
            return Ok(());
        }
        let refused: Vec<&Finding> = findings.iter().filter(|finding| !self.covers(finding.reason)).collect();
        let lines: String = findings.iter().map(|Finding { object, why, .. }| format!("\n  {object}: {why}")).collect();
        tell(&format!("this would {act}:{lines}"));
        let Some(flags) = flags(&refused) else { return Ok(()) };
        match is_agreed("continue?")? {
            Some(true) => Ok(()),
            Some(false) => bail!("nothing was done"),
            None => bail!("refused, and nothing was done; look at what is listed above, and allow it with {flags}"),
        }
    }

    fn covers(&self, reason: Reason) -> bool {
        match reason {
            Reason::OutsideNamespace => self.allow_outside_namespace,
            Reason::Unproven => self.records.allow_unproven,
        }
    }
}

impl RecordConsent {
    /// Fails without consent where nothing vouches for the record. The caller must not have acted on it before.
    ///
    /// # Arguments
    /// `act`: what the command would do with the record, as in "run the tests of".
    pub fn obtain(self, act: &str, session: &Session, release: &Release) -> anyhow::Result<()> {
        let consent = Consent { allow_outside_namespace: false, records: self };
        consent.obtain(act, doubt(session, release).as_slice())
    }
}

/// Why the record is not known to be the operator's. Without a key, nothing is known of any record.
pub fn doubt(session: &Session, release: &Release) -> Option<Finding> {
    let why = match (&session.signer, &release.proof) {
        (Signer::Unchecked, _) => session.unverified.clone().unwrap_or_else(|| "nobody verified it".to_owned()),
        (_, Proof::Missing(doubt)) => doubt.sentence().to_owned(),
        (_, Proof::Record | Proof::Content | Proof::CopyOf { .. }) => return None,
    };
    let object = format!("the record of revision {} of the release {}", release.revision, release.name);
    Some(Finding { object, why, reason: Reason::Unproven })
}

/// The flags that are missing, each once.
fn flags(refused: &[&Finding]) -> Option<String> {
    let mut flags: Vec<&str> = refused.iter().map(|finding| finding.reason.flag()).collect();
    flags.sort_unstable();
    flags.dedup();
    (!flags.is_empty()).then(|| flags.join(" and "))
}

/// What is wrong with the place of an object, if it is not in the namespace of its release. `id` is as the API server gets it:
/// without a namespace where the kind is cluster-scoped.
pub fn outside(id: &ObjectId, namespace: &str) -> Option<Finding> {
    let why = match id.namespace.as_deref() {
        Some(place) if place == namespace => return None,
        Some(place) => format!("it is in the namespace {place}, and the release is in {namespace}"),
        None => format!("it is cluster-scoped, and the release is in the namespace {namespace}"),
    };
    Some(Finding { object: id.to_string(), why, reason: Reason::OutsideNamespace })
}

/// What an object of the release's namespace lets others do, where that deserves a look.
pub fn powers(object: &Object) -> Option<&'static str> {
    let is_token = || object.value()["type"] == "kubernetes.io/service-account-token";
    match (object.id().group.as_str(), object.kind()) {
        ("rbac.authorization.k8s.io", "RoleBinding") => Some("it gives rights in the namespace to others"),
        ("rbac.authorization.k8s.io", _) => Some("it defines rights that others may get"),
        ("", "ServiceAccount") => Some("it can be given rights, and pods can run as it"),
        ("", "Secret") if is_token() => Some("it holds a token of a ServiceAccount"),
        ("admissionregistration.k8s.io" | "apiregistration.k8s.io" | "apiextensions.k8s.io", _) => {
            Some("it changes what the API server does")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(namespace: Option<&str>) -> ObjectId {
        ObjectId {
            group: String::new(),
            version: "v1".into(),
            kind: "Secret".into(),
            namespace: namespace.map(str::to_owned),
            name: "x".into(),
        }
    }

    #[test]
    fn only_the_namespace_of_the_release_is_inside() {
        assert_eq!(outside(&id(Some("team-a")), "team-a"), None);
        for place in [None, Some(""), Some("kube-system"), Some("Team-a"), Some("team-a ")] {
            let finding = outside(&id(place), "team-a").unwrap_or_else(|| panic!("{place:?} is inside"));
            assert_eq!(finding.reason, Reason::OutsideNamespace);
        }
    }

    #[test]
    fn without_consent_nothing_is_done_and_the_flag_is_named() {
        let findings: Vec<Finding> = [None, Some("b")].iter().filter_map(|place| outside(&id(*place), "a")).collect();
        // Nobody can be asked where tests run without a terminal.
        let refused = Consent::default().obtain("create this", &findings);
        if let Err(error) = refused {
            assert!(error.to_string().ends_with("allow it with --allow-outside-namespace"), "{error}");
        }
        assert_eq!(flags(&findings.iter().collect::<Vec<_>>()).as_deref(), Some("--allow-outside-namespace"));
        let allowed = Consent { allow_outside_namespace: true, ..Consent::default() };
        assert!(allowed.obtain("create this", &findings).is_ok());
        assert!(Consent::default().obtain("create this", &[]).is_ok());
    }

    #[test]
    fn objects_that_give_rights_are_named() {
        let object = |value| Object::new(value).unwrap();
        let secret = |type_: &str| {
            object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "type": type_}))
        };
        assert!(powers(&secret("kubernetes.io/service-account-token")).is_some());
        assert_eq!(powers(&secret("Opaque")), None);
        for kind in ["Role", "RoleBinding"] {
            let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}});
            assert!(powers(&object(role)).is_some(), "{kind}");
        }
        assert_eq!(powers(&object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}))), None);
    }
}
