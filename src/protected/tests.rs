use super::*;
use kube::discovery::ApiResource;
use serde_json::json;

use crate::discovery::Kind;

fn operator() -> ProtectedObjects {
    ProtectedObjects {
        namespace: "ops".into(),
        pod: Some("op-manager-5d8f7c9b6d-x2x7k".into()),
        service_account: Some(("ops".into(), "manager".into())),
        lease: Some(("ops".into(), "chartwright.g.io".into())),
        kinds: vec![GroupVersionKind::gvk("g.io", "v1", "App")],
    }
}

fn kinds() -> Kinds {
    let gvk = GroupVersionKind::gvk("g.io", "v1", "App");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "apps");
    Kinds::of([(gvk, Kind { resource, namespaced: true, has_status: true, is_manageable: true })])
}

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

fn is_hook(object: &Object) -> bool {
    object.annotation("helm.sh/hook").is_some()
}

fn hook(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({"helm.sh/hook": "test"});
    object
}

/// Why objects of a revision in a namespace are refused.
fn refusal_in(namespace: &str, objects: &[Value], has_consent: bool) -> Option<String> {
    let objects: Vec<Object> = objects.iter().map(|object| Object::new(object.clone()).unwrap()).collect();
    let placed: Vec<Placed<'_>> =
        objects.iter().map(|object| Placed { object, namespace: Some(namespace), is_hook: is_hook(object) }).collect();
    operator().check(&placed, has_consent, &kinds()).err().map(|refused| refused.to_string())
}

fn is_refused(object: Value, has_consent: bool) -> bool {
    refusal_in("ops", &[object], has_consent).is_some()
}

#[test]
fn the_operators_own_objects_are_refused_whatever_is_allowed() {
    let scaler = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "op-manager"}});
    let by_default = json!({"scaleTargetRef": {"name": "op-manager"}});
    for own in [
        object("apps/v1", "Deployment", "op-manager"),
        object("apps/v1", "ReplicaSet", "op-manager-5d8f7c9b6d"),
        object("v1", "Pod", "op-manager-5d8f7c9b6d-x2x7k"),
        object("v1", "ServiceAccount", "manager"),
        object("coordination.k8s.io/v1", "Lease", "chartwright.g.io"),
        object("v1", "ConfigMap", "chartwright-metrics-ca"),
        with(object("autoscaling/v2", "HorizontalPodAutoscaler", "x"), "spec", scaler),
        with(object("keda.sh/v1alpha1", "ScaledObject", "x"), "spec", by_default),
        with(
            object("g.io/v1", "Scaler", "x"),
            "spec",
            json!({"targetRef": {"kind": "Deployment", "name": "op-manager"}}),
        ),
    ] {
        assert!(is_refused(own.clone(), true), "{own}");
        assert_eq!(refusal_in("elsewhere", &[own], false), None, "only in its namespace");
    }
}

#[test]
fn names_that_only_look_alike_are_free() {
    for other in [
        object("apps/v1", "Deployment", "op"),
        object("apps/v1", "Deployment", "op-manager-2"),
        object("apps/v1", "Deployment", "manager"),
        object("v1", "Service", "op-manager"),
        object("v1", "ServiceAccount", "op-manager"),
        object("v1", "ConfigMap", "web"),
        with(object("keda.sh/v1alpha1", "ScaledObject", "x"), "spec", json!({"scaleTargetRef": {"name": "web"}})),
    ] {
        assert!(!is_refused(other.clone(), false), "{other}");
    }
}

#[test]
fn definitions_of_watched_kinds_are_refused_by_name_and_by_content() {
    let crd = |name: &str, spec: Value| {
        with(object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name), "spec", spec)
    };
    for own in [
        crd("apps.g.io", json!({})),
        crd("apps.g.io", json!({"versions": []})),
        crd("other.g.io", json!({"group": "g.io", "names": {"kind": "App"}})),
    ] {
        assert!(is_refused(own.clone(), true), "{own}");
    }
    assert!(!is_refused(crd("others.g.io", json!({"group": "g.io", "names": {"kind": "Other"}})), false));
    assert!(!is_refused(crd("apps.h.io", json!({"group": "h.io", "names": {"kind": "App"}})), false));
}

#[test]
fn pods_that_run_as_the_operator_need_consent() {
    let template = |pod: Value| json!({"template": {"spec": pod}});
    for (kind, spec) in [
        ("Pod", json!({"serviceAccountName": "manager", "containers": []})),
        ("Deployment", template(json!({"serviceAccount": "manager", "containers": []}))),
        ("CronJob", json!({"jobTemplate": {"spec": template(json!({"serviceAccountName": "manager"}))}})),
        ("Runner", json!({"pods": [{"serviceAccountName": "manager"}]})),
    ] {
        let pod = with(object("apps/v1", kind, "web"), "spec", spec);
        assert!(is_refused(pod.clone(), false), "{pod}");
        assert!(!is_refused(pod.clone(), true), "{pod}");
        assert_eq!(refusal_in("elsewhere", &[pod], false), None);
    }
    let other = with(
        object("v1", "Pod", "web"),
        "spec",
        json!({"serviceAccountName": "web", "containers": [{"name": "manager"}]}),
    );
    assert!(!is_refused(other, false));
}

#[test]
fn a_pod_that_names_no_account_runs_as_the_default_one() {
    let pod = Object::new(with(object("v1", "Pod", "web"), "spec", json!({"containers": [{"image": "a"}]}))).unwrap();
    let default = ProtectedObjects { service_account: Some(("ops".into(), "default".into())), ..operator() };
    let placed = [Placed { object: &pod, namespace: Some("ops"), is_hook: false }];
    assert!(default.check(&placed, false, &kinds()).is_err());
    assert!(operator().check(&placed, false, &kinds()).is_ok());
}

#[test]
fn whatever_names_a_secret_of_the_operator_needs_consent() {
    let mounts = json!({"containers": [], "volumes": [{"secret": {"secretName": "chartwright-signing-key"}}]});
    let env = json!({"containers": [{"envFrom": [{"secretRef": {"name": "chartwright-ledger-0"}}]}]});
    let by_name = |name: &str| json!({"data": {"source": format!("ops/{name}")}});
    let others = ["chartwright-trust", "chartwright-public-key", "chartwright-metrics-ca"].map(by_name);
    for spec in [mounts, env].into_iter().chain(others) {
        let pod = with(object("v1", "Pod", "web"), "spec", spec);
        assert!(is_refused(pod.clone(), false), "{pod}");
        assert!(!is_refused(pod, true));
    }
}

#[test]
fn tokens_and_rights_to_secrets_need_consent() {
    let token = with(object("v1", "Secret", "t"), "type", "kubernetes.io/service-account-token".into());
    let rbac = "rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let bound =
        |kind: &str, name: &str| with(object(rbac, "RoleBinding", "b"), "roleRef", json!({"kind": kind, "name": name}));
    for dangerous in
        [token, with(object(rbac, "Role", "r"), "rules", rules), bound("ClusterRole", "admin"), bound("Role", "leader")]
    {
        assert!(is_refused(dangerous.clone(), false), "{dangerous}");
        assert!(!is_refused(dangerous, true));
    }
    let harmless = with(
        object(rbac, "Role", "r"),
        "rules",
        json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["*"]}]),
    );
    let binding = bound("Role", "r");
    assert_eq!(refusal_in("ops", &[binding.clone(), harmless.clone()], false), None, "the Role is part of the release");
    // The operator makes none of what a test hook makes, and other hooks may run too early or too late.
    for objects in [[binding.clone(), hook(harmless.clone())], [hook(binding), harmless]] {
        let refused = refusal_in("ops", &objects, false).unwrap();
        assert!(refused.contains("does not apply before it"), "{refused}");
    }
}

#[test]
fn secrets_that_the_release_does_not_make_need_consent() {
    let containers =
        json!([{"name": "a", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]);
    let projected = json!([{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]);
    let driver = json!([{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]);
    let secret = object("v1", "Secret", "s");
    for spec in [
        json!({"containers": containers}),
        json!({"initContainers": containers}),
        json!({"containers": [{"envFrom": [{"secretRef": {"name": "s", "optional": true}}]}]}),
        json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
        json!({"volumes": projected}),
        json!({"volumes": driver}),
        json!({"jobTemplate": {"spec": {"template": {"spec": {"containers": containers}}}}}),
    ] {
        let user = with(object("v1", "Pod", "web"), "spec", spec);
        assert!(refusal_in("ops", std::slice::from_ref(&user), false).unwrap().contains("does not make"), "{user}");
        assert!(is_refused(hook(user.clone()), false), "{user}");
        assert!(refusal_in("ops", &[user.clone(), hook(secret.clone())], false).is_some(), "a hook makes it");
        assert_eq!(refusal_in("ops", &[user.clone(), secret.clone()], false), None, "{user}");
        assert_eq!(refusal_in("ops", std::slice::from_ref(&user), true), None);
        assert_eq!(refusal_in("elsewhere", &[user], false), None);
    }
    let pulls = json!({"containers": [], "imagePullSecrets": [{"name": "registry"}]});
    assert!(!is_refused(with(object("v1", "Pod", "web"), "spec", pulls), false));
    let tls = json!({"tls": [{"secretName": "www"}]});
    assert!(!is_refused(with(object("networking.k8s.io/v1", "Ingress", "web"), "spec", tls), false));
}

#[test]
fn what_can_stop_the_operator_needs_consent() {
    for stops in [
        object("networking.k8s.io/v1", "NetworkPolicy", "n"),
        object("v1", "ResourceQuota", "q"),
        object("v1", "LimitRange", "l"),
        object("policy/v1", "PodDisruptionBudget", "p"),
    ] {
        assert!(
            refusal_in("ops", std::slice::from_ref(&stops), false).unwrap().contains("can stop the operator"),
            "{stops}"
        );
        let object = Object::new(stops.clone()).unwrap();
        let placed = [Placed { object: &object, namespace: Some("ops"), is_hook: false }];
        let outside = ProtectedObjects { pod: None, service_account: None, ..operator() };
        assert!(outside.check(&placed, false, &kinds()).is_ok(), "it runs somewhere else");
        assert!(!is_refused(stops.clone(), true), "{stops}");
        assert_eq!(refusal_in("elsewhere", &[stops], false), None);
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    let own = refusal_in("ops", &[object("apps/v1", "Deployment", "op-manager")], false).unwrap();
    assert!(
        own.starts_with("Deployment ops/op-manager is what the operator runs in, and no release may touch it"),
        "{own}"
    );
    let pod = with(object("v1", "Pod", "web"), "spec", json!({"serviceAccountName": "manager"}));
    assert!(refusal_in("ops", &[pod], false).unwrap().contains("add `operator-namespace` to `allow`"));
}

#[test]
fn the_steps_grow_with_the_objects_and_with_what_each_refers_to() {
    let rbac = "rbac.authorization.k8s.io/v1";
    let secret = |it: usize| object("v1", "Secret", &format!("s{it}"));
    let role = |name: &str, secrets: &[String]| {
        let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": secrets});
        with(object(rbac, "Role", name), "rules", json!([rule]))
    };
    let pod = |name: &str, secrets: &[String]| {
        let volumes: Vec<Value> = secrets.iter().map(|name| json!({"secret": {"secretName": name}})).collect();
        with(object("v1", "Pod", name), "spec", json!({"volumes": volumes}))
    };
    let of = |objects: Vec<Value>| crate::steps::of(|| assert_eq!(refusal_in("ops", &objects, false), None));
    crate::steps::assert_linear("many of each", |number| {
        let each = |it: usize| {
            let binding = json!({"kind": "Role", "name": format!("r{it}")});
            let own = [format!("s{it}")];
            let binding = with(object(rbac, "RoleBinding", &format!("b{it}")), "roleRef", binding);
            [secret(it), role(&format!("r{it}"), &own), pod(&format!("p{it}"), &own), binding]
        };
        of((0..number / 2).flat_map(each).collect())
    });
    crate::steps::assert_linear("one that refers to many", |number| {
        let names: Vec<String> = (0..number).map(|it| format!("s{it}")).collect();
        of((0..number).map(secret).chain([role("r", &names), pod("p", &names)]).collect())
    });
}
