//! Secrets and ConfigMaps that are not objects of a chart: Helm's release records, tokens of the cluster, and the operator's own
//! Secrets.
//!
//! Pure, and the one list for all who ask: a record says what a release contains, so whoever may have the operator write one
//! decides about another release; and whoever may have the operator read a token or the operator's key has the rights that come
//! with it. The operator's own Secrets are known by their names as well as by their types: a Secret of such a name without the type
//! would be read in its place.
//!
//! | | rendered, hooked, adopted | removed as an object of a release | shown to `lookup` | source of values |
//! |---|---|---|---|---|
//! | Helm's records | never | never | never | never |
//! | the operator's own Secrets | never | never | never | never |
//! | service account tokens, bootstrap tokens | yes | yes | never | never |

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde_json::Value;

use crate::object::{Object, ObjectId};

/// Holds the key that records are signed with.
pub const SIGNING_KEY: &str = "chartwright-signing-key";
/// Holds what verifies records.
pub const PUBLIC_KEY: &str = "chartwright-public-key";
/// Says until when the operator signs unsigned records.
pub const TRUST: &str = "chartwright-trust";
/// Holds the certificate for metrics, and the key of it. The certificate alone is in a ConfigMap of this name.
pub const METRICS_CA: &str = "chartwright-metrics-ca";
/// The names of all Secrets that hold the ledger begin so.
pub const LEDGER: &str = "chartwright-ledger-";
/// All of these, the ledger by the beginning of its names. The names count in every namespace: there may be other operators.
pub const OPERATOR_SECRETS: [&str; 5] = [SIGNING_KEY, PUBLIC_KEY, TRUST, METRICS_CA, LEDGER];

/// Every Secret type of the operator itself begins so.
pub const OPERATOR_TYPES: &str = "chartwright.dev/";
/// `helm.sh/release.v1` is the only one so far.
const RECORD_TYPES: &str = "helm.sh/release";
/// `sh.helm.release.v1.<release>.v<revision>`
const RECORD_NAMES: &str = "sh.helm.release.";
/// Helm's drivers select records by this label.
const RECORD_OWNER: (&str, &str) = ("owner", "helm");
const TOKEN_TYPES: [&str; 2] = ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"];

/// What such an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sensitive {
    /// A release record of Helm.
    Record,
    /// A Secret that the operator keeps for itself.
    Operator,
    /// A token of a ServiceAccount, or one that nodes join with.
    Token,
}

impl Sensitive {
    /// What is known of a Secret or a ConfigMap. Objects of other kinds are never sensitive.
    pub fn of(group: &str, kind: &str, secret_type: Option<&str>, name: &str, labels: &Labels<'_>) -> Option<Self> {
        let is_secret = kind == "Secret";
        if !group.is_empty() || !(is_secret || kind == "ConfigMap") {
            return None;
        }
        let secret_type = secret_type.filter(|_| is_secret).unwrap_or_default();
        if secret_type.starts_with(OPERATOR_TYPES) || (is_secret && is_operator_secret(name)) {
            return Some(Sensitive::Operator);
        }
        if secret_type.starts_with(RECORD_TYPES) || name.starts_with(RECORD_NAMES) || labels.say_record() {
            return Some(Sensitive::Record);
        }
        TOKEN_TYPES.contains(&secret_type).then_some(Sensitive::Token)
    }

    /// The same of an object that a chart rendered.
    pub fn of_object(object: &Object) -> Option<Self> {
        let id = object.id();
        let secret_type = object.value().get("type").and_then(Value::as_str);
        let labels = object.value().pointer("/metadata/labels").map_or(Labels::None, Labels::Json);
        Sensitive::of(&id.group, &id.kind, secret_type, &id.name, &labels)
    }

    /// The same of an object in the cluster, where its content is not known.
    pub fn of_metadata(id: &ObjectId, live: &ObjectMeta) -> Option<Self> {
        let labels = live.labels.as_ref().map_or(Labels::None, Labels::Map);
        Sensitive::of(&id.group, &id.kind, None, &id.name, &labels)
    }

    /// Whether a release may contain such an object.
    pub fn may_be_rendered(self) -> bool {
        self == Sensitive::Token
    }

    /// For messages: `ConfigMap a/b is <this>`.
    pub fn as_str(self) -> &'static str {
        match self {
            Sensitive::Record => "a Helm release record",
            Sensitive::Operator => "a Secret of the operator itself",
            Sensitive::Token => "a token",
        }
    }
}

/// Whether a Secret is an operator's own, by its name.
fn is_operator_secret(name: &str) -> bool {
    OPERATOR_SECRETS.contains(&name) || name.starts_with(LEDGER)
}

/// Labels, however they are held.
#[derive(Clone, Copy, Debug)]
pub enum Labels<'a> {
    None,
    Map(&'a BTreeMap<String, String>),
    Json(&'a Value),
}

impl Labels<'_> {
    /// Helm's ConfigMap driver once wrote the key in capitals.
    fn say_record(&self) -> bool {
        let is_owner = |key: &str, value: &str| {
            key.eq_ignore_ascii_case(RECORD_OWNER.0) && value.eq_ignore_ascii_case(RECORD_OWNER.1)
        };
        match self {
            Labels::None => false,
            Labels::Map(map) => map.iter().any(|(key, value)| is_owner(key, value)),
            Labels::Json(value) => {
                let entries = value.as_object().into_iter().flatten();
                entries.filter_map(|(key, value)| Some((key, value.as_str()?))).any(|(key, value)| is_owner(key, value))
            }
        }
    }
}

/// An object that no release may contain.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "{id} is {}, which no release may contain: it decides what becomes of a release; remove it from the values or from the chart",
    what.as_str()
)]
pub struct NoObject {
    pub id: Box<ObjectId>,
    pub what: Sensitive,
}

/// Refuses an object that no release may contain, before anything is written.
pub fn check(object: &Object) -> Result<(), NoObject> {
    match Sensitive::of_object(object).filter(|what| !what.may_be_rendered()) {
        Some(what) => Err(NoObject { id: Box::new(object.id()), what }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(kind: &str, name: &str, secret_type: Option<&str>, labels: Value) -> Option<Sensitive> {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}});
        if let Some(secret_type) = secret_type {
            object["type"] = secret_type.into();
        }
        Sensitive::of_object(&Object::new(object).unwrap())
    }

    #[test]
    fn a_record_is_known_by_its_type_its_name_or_its_label() {
        for (kind, name, secret_type, labels) in [
            ("Secret", "x", Some("helm.sh/release.v1"), json!({})),
            ("Secret", "x", Some("helm.sh/release.v2"), json!(null)),
            ("Secret", "sh.helm.release.v1.web.v2", None, json!({})),
            ("Secret", "sh.helm.release.v1.web.v2", Some("Opaque"), json!({})),
            ("ConfigMap", "sh.helm.release.v1.web.v2", None, json!({})),
            ("Secret", "x", None, json!({"owner": "helm", "name": "web", "version": "2", "status": "deployed"})),
            ("ConfigMap", "x", None, json!({"owner": "helm"})),
            ("ConfigMap", "x", None, json!({"OWNER": "helm"})),
            ("ConfigMap", "x", None, json!({"OWNER": "HELM", "NAME": "web"})),
        ] {
            assert_eq!(of(kind, name, secret_type, labels.clone()), Some(Sensitive::Record), "{kind} {name} {labels}");
        }
    }

    #[test]
    fn ordinary_objects_are_not_sensitive() {
        for (kind, name, secret_type, labels) in [
            ("Secret", "web", Some("Opaque"), json!({"app.kubernetes.io/managed-by": "Helm", "owner": "team-a"})),
            ("ConfigMap", "helm.sh.release", None, json!({"name": "web", "status": "deployed", "version": "1"})),
            ("Secret", "tls", Some("kubernetes.io/tls"), json!({})),
            // Not what Helm's drivers read.
            ("Service", "sh.helm.release.v1.web.v2", None, json!({"owner": "helm"})),
            ("ConfigMap", "x", Some("helm.sh/release.v1"), json!({})),
        ] {
            assert_eq!(of(kind, name, secret_type, labels), None, "{kind} {name}");
        }
        let other =
            json!({"apiVersion": "example.com/v1", "kind": "Secret", "metadata": {"name": "sh.helm.release.v1.a.v1"}});
        assert_eq!(Sensitive::of_object(&Object::new(other).unwrap()), None);
    }

    #[test]
    fn tokens_may_be_rendered_and_the_operators_own_secrets_may_not() {
        for secret_type in TOKEN_TYPES {
            assert_eq!(of("Secret", "t", Some(secret_type), json!({})), Some(Sensitive::Token));
        }
        for secret_type in ["chartwright.dev/signing-key", "chartwright.dev/release-ledger", "chartwright.dev/x"] {
            assert_eq!(of("Secret", "k", Some(secret_type), json!({})), Some(Sensitive::Operator));
        }
        let names = OPERATOR_SECRETS.map(|name| if name == LEDGER { format!("{LEDGER}12") } else { name.to_owned() });
        for (name, secret_type) in names.iter().flat_map(|name| [(name, None), (name, Some("Opaque"))]) {
            assert_eq!(of("Secret", name, secret_type, json!({})), Some(Sensitive::Operator), "{name}");
        }
        assert_eq!(of("ConfigMap", METRICS_CA, None, json!({})), None, "a certificate is no secret");
        assert_eq!(of("Secret", "chartwright-web", None, json!({})), None);
        let may = [Sensitive::Record, Sensitive::Operator, Sensitive::Token].map(Sensitive::may_be_rendered);
        assert_eq!(may, [false, false, true]);
    }
}
