//! What is taken out of a bundle beside the values of Secrets that are known. Pure.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::suspicion;
use crate::manifest;
use crate::release::Release;
use crate::release::mask::MASK;

/// The keys under which somebody says something in words of their own.
const QUOTES: [&str; 6] = ["message", "description", "trouble", "hold", "notes", "manifest"];
/// Annotations that are shown begin with one of these. Any other tool may keep the whole spec in its own, packed.
const KNOWN: [&str; 8] = [
    "chartwright.dev/",
    "helm.sdk.operatorframework.io/",
    "helm.sh/",
    "meta.helm.sh/",
    "applyset.kubernetes.io/",
    "deployment.kubernetes.io/",
    "kubernetes.io/",
    "prometheus.io/",
];
/// Where an operator finds the images of its charts.
const IMAGES: &str = "RELATED_IMAGE_";
/// Environment variables of an operator that hold no secret.
const HARMLESS: [&str; 8] = [
    "WATCH_NAMESPACE",
    "POD_NAMESPACE",
    "POD_NAME",
    "OPERATOR_NAME",
    "HELM_OPERATOR_NAMESPACE",
    "RUST_LOG",
    "ANSIBLE_GATHERING",
    "GOMAXPROCS",
];

/// The texts in a Secret that must not be shown. What says where it is from, and certificates of the cluster, are no secrets.
pub fn texts(secret: &Secret) -> Vec<String> {
    let is_token = secret.type_.as_deref() == Some("kubernetes.io/service-account-token");
    let is_told = |key: &str| is_token && matches!(key, "namespace" | "ca.crt");
    let data = secret.data.iter().flatten().filter(|(key, _)| !is_told(key));
    let decoded = data.map(|(_, value)| match String::from_utf8(value.0.clone()) {
        Ok(text) => text,
        // Nobody writes bytes in any other way.
        Err(_) => STANDARD.encode(&value.0),
    });
    decoded.chain(secret.string_data.iter().flatten().map(|(_, text)| text.clone())).collect()
}

/// The texts in the Secrets of a manifest: those of an earlier revision may be in a log that is older than the one of now.
pub fn manifest_secrets(manifest: &str) -> Vec<String> {
    let rendered = manifest::read_record(manifest).unwrap_or_default();
    let secrets = rendered.objects.iter().filter(|object| object.kind() == "Secret");
    // One that the API server would refuse holds nothing that was ever in use.
    let secrets = secrets.filter_map(|object| serde_json::from_value::<Secret>(object.value().clone()).ok());
    secrets.flat_map(|secret| texts(&secret)).collect()
}

/// A text, and the same in base64: the redactor finds each of them in base64 once more.
pub fn encoded_twice(text: &str) -> Vec<String> {
    vec![text.to_owned(), STANDARD.encode(text)]
}

/// Puts a mask in the place of all that is said, and leaves the shape.
pub fn all(value: &mut Value, taken: &mut Vec<Value>) {
    match value {
        Value::Null => {}
        Value::Array(list) => list.iter_mut().for_each(|inner| all(inner, taken)),
        Value::Object(map) => map.values_mut().for_each(|inner| all(inner, taken)),
        said => taken.push(std::mem::replace(said, MASK.into())),
    }
}

/// A watches file without the values of its overrides.
pub fn watches(mut file: Value, taken: &mut Vec<Value>) -> Value {
    for entry in file.as_array_mut().into_iter().flatten() {
        if let Some(overrides) = entry.get_mut("overrideValues") {
            all(overrides, taken);
        }
    }
    file
}

/// A custom resource that may be shown. `is_blind` says that its Secrets could not be read, so that nobody can look for them in it.
pub fn resource(mut cr: Value, is_blind: bool, taken: &mut Vec<Value>) -> Value {
    tidy(&mut cr, is_blind);
    if let Some(spec) = cr.get_mut("spec") {
        // What is masked without a look at it may be anything: nobody looks for it elsewhere.
        if is_blind { all(spec, &mut vec![]) } else { suspicion::mask(spec, taken) }
    }
    if let Some(manifest) = cr.pointer_mut("/status/deployedRelease/manifest") {
        *manifest = "(left out)".into();
    }
    cr
}

/// What the values and the objects of a release hold that sounds like a secret.
pub fn suspicious_of_release(mut values: Value, manifest: &str) -> Vec<Value> {
    let mut taken = vec![];
    suspicion::mask(&mut values, &mut taken);
    let rendered = manifest::read_record(manifest).unwrap_or_default();
    for object in rendered.objects.iter().filter(|object| object.kind() != "Secret") {
        suspicion::find(object.value(), &mut taken);
    }
    taken
}

/// An operator's Deployment or pod that may be shown: environment variables may hold anything.
pub fn workload(mut object: Value, is_blind: bool, taken: &mut Vec<Value>) -> Value {
    tidy(&mut object, is_blind);
    for spec in ["/spec", "/spec/template/spec"] {
        for containers in ["containers", "initContainers", "ephemeralContainers"] {
            let list = object.pointer_mut(&format!("{spec}/{containers}")).and_then(Value::as_array_mut);
            for container in list.into_iter().flatten() {
                for words in ["command", "args"] {
                    suspicion::find(&container[words], taken);
                }
                let variables = container.get_mut("env").and_then(Value::as_array_mut);
                variables.into_iter().flatten().for_each(|variable| hide_variable(variable, taken));
            }
        }
    }
    object
}

fn hide_variable(variable: &mut Value, taken: &mut Vec<Value>) {
    let is_harmless =
        variable["name"].as_str().is_some_and(|name| HARMLESS.contains(&name) || name.starts_with(IMAGES));
    if let Some(value) = variable.get_mut("value").filter(|_| !is_harmless) {
        suspicion::texts(value, taken);
    }
}

/// Without what is long and says nothing, or everything once more. Who is blind sees no words of others either.
pub fn tidy(object: &mut Value, is_blind: bool) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    for place in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
        let annotations = object.pointer_mut(place).and_then(Value::as_object_mut);
        for (key, said) in annotations.into_iter().flatten() {
            if is_blind || !KNOWN.iter().any(|known| key.starts_with(known)) {
                *said = MASK.into();
            }
        }
    }
    if let Some(status) = object.get_mut("status").filter(|_| is_blind) {
        quotes(status);
    }
}

/// Masks the words of programs, wherever they are: notes of a chart, errors, last words of containers.
pub fn quotes(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(quotes),
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                if QUOTES.contains(&key.as_str()) { all(inner, &mut vec![]) } else { quotes(inner) }
            }
        }
        _ => {}
    }
}

/// A revision without its values and its manifest.
pub fn revision(release: &Release) -> Value {
    let own = release.own.as_ref();
    let objects = own.map(|own| own.objects.iter().map(|applied| applied.id.to_string()).collect::<Vec<_>>());
    json!({
        "revision": release.revision,
        "status": release.status.as_str(),
        "chart": release.chart,
        "description": release.description,
        "firstDeployed": release.first_deployed.to_string(),
        "lastDeployed": release.last_deployed.to_string(),
        "by": if release.was_made_by_helm() { "helm" } else { "chartwright" },
        "digest": release.digest(),
        "owner": own.map(|own| &own.owner),
        "hold": own.and_then(|own| own.hold.as_ref()),
        "trouble": own.and_then(|own| own.trouble.as_ref()),
        "objects": objects,
        "kept": own.map(|own| own.kept.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "hooks": release.hooks.iter().map(|hook| json!({"events": hook.events, "kind": hook.kind, "name": hook.name,
            "weight": hook.weight, "lastRun": hook.last_run})).collect::<Vec<_>>(),
        "bytes": BTreeMap::from([("manifest", release.manifest.len()), ("notes", release.notes.len())]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_keep_their_keys_only() {
        let file = json!([{"kind": "A", "overrideValues": {"image.tag": "1.2", "n": 7}}, {"kind": "B"}]);
        let expected = json!([{"kind": "A", "overrideValues": {"image.tag": "***", "n": "***"}}, {"kind": "B"}]);
        let mut taken = vec![];
        assert_eq!((watches(file, &mut taken), taken), (expected, vec![json!("1.2"), json!(7)]));
    }

    fn cr() -> Value {
        json!({"metadata": {"name": "a", "managedFields": [], "annotations": {"chartwright.dev/paused": "why",
            "kubectl.kubernetes.io/last-applied-configuration": "{}", "kapp.k14s.io/original": "hunter2"}},
            "spec": {"dbPassword": "x", "auth": {"user": "y", "enabled": true}, "secretName": "login", "replicas": 2},
            "status": {"conditions": [{"type": "Deployed", "message": "your password is hunter2"}],
                "deployedRelease": {"manifest": "kind: Secret"}}})
    }

    #[test]
    fn what_sounds_like_a_secret_is_masked_and_names_of_secrets_are_not() {
        let mut taken = vec![];
        let shown = resource(cr(), false, &mut taken);
        assert_eq!(
            shown["spec"],
            json!({"dbPassword": "***", "auth": {"user": "***", "enabled": true}, "secretName": "login", "replicas": 2})
        );
        assert_eq!(taken, [json!("y"), json!("x")], "it is looked for elsewhere");
        assert_eq!(shown["status"]["deployedRelease"]["manifest"], "(left out)");
    }

    #[test]
    fn annotations_of_unknown_tools_are_masked() {
        let shown = resource(cr(), false, &mut vec![]);
        let expected = json!({"chartwright.dev/paused": "why", "kapp.k14s.io/original": "***",
            "kubectl.kubernetes.io/last-applied-configuration": "***"});
        assert_eq!(shown["metadata"], json!({"name": "a", "annotations": expected}));
    }

    #[test]
    fn who_is_blind_shows_no_words_of_others() {
        let blind = resource(cr(), true, &mut vec![]);
        assert_eq!(blind["spec"]["replicas"], "***");
        assert_eq!(blind["metadata"]["annotations"]["chartwright.dev/paused"], "***");
        assert_eq!(blind["status"]["conditions"], json!([{"type": "Deployed", "message": "***"}]));
    }

    #[test]
    fn environment_variables_are_masked_unless_they_are_known() {
        let deployment = json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": [
            {"name": "m", "args": ["--api-token=five"], "env": [
                {"name": "HTTPS_PROXY", "value": "http://me:pw@x"}, {"name": "WATCH_NAMESPACE", "value": "a,b"},
                {"name": "X", "valueFrom": {}}, {"name": "RELATED_IMAGE_WEB", "value": "web:1"}]}]}}}});
        let mut taken = vec![];
        let shown = workload(deployment, false, &mut taken);
        let env = &shown["spec"]["template"]["spec"]["containers"][0]["env"];
        assert_eq!(
            (&env[0]["value"], &env[1]["value"], &env[3]["value"]),
            (&json!("***"), &json!("a,b"), &json!("web:1"))
        );
        assert_eq!(shown["spec"]["template"]["metadata"]["annotations"]["a"], "***");
        assert_eq!(taken, [json!("five"), json!("http://me:pw@x")]);
    }

    #[test]
    fn a_release_tells_what_sounds_like_a_secret_in_it() {
        let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{env: [{name: A_TOKEN, value: seven}]}]}\n";
        assert_eq!(suspicious_of_release(json!({"pwd": "six"}), manifest), [json!("six"), json!("seven")]);
    }

    #[test]
    fn the_texts_of_a_secret_are_its_values() {
        let secret: Secret = serde_json::from_value(json!({"type": "kubernetes.io/service-account-token",
            "data": {"token": STANDARD.encode("abc"), "namespace": STANDARD.encode("default"), "raw": STANDARD.encode([255, 254])}}))
        .unwrap();
        assert_eq!(texts(&secret), [STANDARD.encode([255, 254]), "abc".to_owned()]);
    }
}
