//! Who the operator is: which pod it runs in, and as which ServiceAccount.
//!
//! Its token says both, whether it is that of a pod or of a kubeconfig. So no right is needed and nobody is asked: an operator that
//! stands by must not even send a review.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube::config::AuthInfo;
use serde::Deserialize;

const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// As far as anybody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub pod: Option<String>,
    /// Of the pod.
    pub pod_uid: Option<String>,
    /// Namespace and name.
    pub service_account: Option<(String, String)>,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Option<Bound>,
}

#[derive(Deserialize)]
struct Bound {
    pod: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    uid: Option<String>,
}

impl Identity {
    /// By what the operator shows to the API server. Whoever acts as somebody else is not known by the token.
    pub fn of(auth: &AuthInfo) -> Self {
        if auth.impersonate.is_some() {
            return Identity::default();
        }
        // kube hides the token from everybody who does not write a kubeconfig.
        let written = serde_json::to_value(auth).unwrap_or_default();
        let in_file = || std::fs::read_to_string(auth.token_file.as_ref()?).ok();
        let token = written["token"].as_str().map(str::to_owned).or_else(in_file);
        token.as_deref().and_then(of_token).unwrap_or_default()
    }

    /// With the pod that the environment names.
    pub fn with_environment(self) -> Self {
        let set = |name| std::env::var(name).ok().filter(|text: &String| !text.trim().is_empty());
        // In a pod whose token does not name it, the host is named like the pod.
        let host = || set("KUBERNETES_SERVICE_HOST").and_then(|_| set("HOSTNAME"));
        Identity { pod: set("POD_NAME").or(self.pod).or_else(host), pod_uid: set("POD_UID").or(self.pod_uid), ..self }
    }
}

/// What a token says. It is the operator's own, so nobody need verify it.
fn of_token(token: &str) -> Option<Identity> {
    let payload = URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    let service_account = account_of(&claims.sub?)?;
    let (pod, pod_uid) = claims.kubernetes.and_then(|bound| bound.pod).map(|pod| (pod.name, pod.uid)).unzip();
    Some(Identity { pod, pod_uid: pod_uid.flatten(), service_account: Some(service_account) })
}

/// `system:serviceaccount:<namespace>:<name>`
fn account_of(user: &str) -> Option<(String, String)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    Some((namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn token(payload: &Value) -> String {
        format!("e30.{}.c2ln\n", URL_SAFE_NO_PAD.encode(payload.to_string()))
    }

    #[test]
    fn a_pods_token_says_who_it_is() {
        let claims = json!({"sub": "system:serviceaccount:ops:manager",
            "kubernetes.io": {"namespace": "ops", "pod": {"name": "op-1-2", "uid": "u"}, "serviceaccount": {"name": "manager"}}});
        let found = of_token(&token(&claims)).unwrap();
        assert_eq!((found.pod.as_deref(), found.pod_uid.as_deref()), (Some("op-1-2"), Some("u")));
        assert_eq!(found.service_account, Some(("ops".into(), "manager".into())));
    }

    #[test]
    fn a_token_without_a_pod_names_the_account_and_another_text_nothing() {
        let found = of_token(&token(&json!({"sub": "system:serviceaccount:ops:manager"}))).unwrap();
        assert_eq!((found.pod, found.service_account.unwrap().1.as_str()), (None, "manager"));
        for other in ["", "a.b.c", "opaque", token(&json!({"sub": "alice"})).as_str(), token(&json!([])).as_str()] {
            assert_eq!(of_token(other), None, "{other}");
        }
    }

    #[test]
    fn the_token_may_be_in_the_kubeconfig_or_in_a_file() {
        let text = token(&json!({"sub": "system:serviceaccount:ops:manager"}));
        let read = |auth: Value| Identity::of(&serde_json::from_value(auth).unwrap()).service_account;
        let expected = Some(("ops".to_owned(), "manager".to_owned()));
        assert_eq!(read(json!({"token": text})), expected);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        assert_eq!(read(json!({"tokenFile": file.path()})), expected);
        assert_eq!(read(json!({"token": text, "as": "somebody"})), None);
        assert_eq!(read(json!({})), None);
    }
}
