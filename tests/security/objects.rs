//! Release records, tokens and the operator's Secrets are not objects of a chart: it can neither write nor read them.

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::harness::{Project, annotated, config, stays, within};

/// The author of a custom resource lists any objects, and asks the cluster through `tpl`.
const EXTRA: &str = "{{ range .Values.objects }}\n---\n{{ tpl (toYaml .) $ }}\n{{ end }}";

async fn project(fields: &str) -> Project {
    let project = Project::new("App").await;
    project.template("extra.yaml", EXTRA);
    project.watch_with(fields);
    project
}

fn record(kind: &str, name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}})
}

fn helms_labels(release: &str) -> Value {
    json!({"owner": "helm", "name": release, "status": "deployed", "version": "2"})
}

fn with_type(mut secret: Value, secret_type: &str) -> Value {
    secret["type"] = secret_type.into();
    secret
}

fn identity(object: &DynamicObject) -> (Option<String>, Option<String>, Value) {
    (object.uid(), object.resource_version(), object.data.clone())
}

/// A ConfigMap that holds what a `lookup` says.
fn seen(name: &str, lookup: &str) -> Value {
    let data = json!({"seen": format!("{{{{ {lookup} | toJson }}}}")});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

async fn what_was_seen(project: &Project, name: &str) -> String {
    project.get("v1", "ConfigMap", name).await.unwrap().data["data"]["seen"].to_string()
}

#[tokio::test]
async fn a_chart_that_renders_a_record_is_refused_before_anything_is_written() {
    let project = project("allow: []").await;
    let _operator = project.run();
    let name = |case: usize| format!("sh.helm.release.v1.agent{case}.v2");
    let hook = |events: &str| json!({"helm.sh/hook": events});
    let cases = [
        with_type(record("Secret", &name(0), helms_labels("agent0")), "helm.sh/release.v1"),
        with_type(record("Secret", "plain1", json!({})), "helm.sh/release.v1"),
        with_type(record("Secret", "later2", json!({})), "helm.sh/release.v9"),
        record("Secret", &name(3), json!({})),
        with_type(record("Secret", &name(4), json!({})), "Opaque"),
        record("Secret", "labelled5", helms_labels("agent5")),
        record("Secret", "labelled6", json!({"owner": "helm"})),
        record("ConfigMap", &name(7), json!({})),
        record("ConfigMap", "labelled8", helms_labels("agent8")),
        record("ConfigMap", "labelled9", json!({"OWNER": "helm", "NAME": "agent9"})),
        json!({"apiVersion": "v1", "kind": "List", "items": [record("Secret", &name(10), json!({}))]}),
        json!({"apiVersion": "v1", "kind": "SecretList", "items": [{"metadata": {"name": name(11)}}]}),
        annotated(record("Secret", &name(12), json!({})), hook("pre-install")),
        annotated(record("ConfigMap", "labelled13", json!({"owner": "helm"})), hook("post-upgrade,post-delete")),
        annotated(record("Secret", &name(14), json!({})), hook("test")),
        with_type(record("Secret", "own15", json!({})), "chartwright.dev/signing-key"),
        with_type(record("Secret", "own16", json!({})), "chartwright.dev/anything"),
    ];
    for (number, case) in cases.iter().enumerate() {
        let cr = format!("web{number}");
        project.apply(&cr, json!({"objects": [config(&cr, "blue"), case]})).await;
        project.decided(&cr).await;
        let item = case.pointer("/items/0").unwrap_or(case);
        let (kind, item_name) = (item["kind"].as_str().unwrap_or("Secret"), item["metadata"]["name"].as_str().unwrap());
        assert!(project.get("v1", kind, item_name).await.is_none(), "a chart made a record: {case}");
        assert!(project.get("v1", "ConfigMap", &cr).await.is_none(), "{case}: nothing else was written either");
        let told = project.not_ready(&cr, "NotAllowed").await;
        assert!(told["message"].as_str().unwrap().contains("which no release may contain"), "{case}: {told}");
    }
}

#[tokio::test]
async fn a_hook_of_an_upgrade_that_writes_a_record_leaves_the_last_revision_as_it_is() {
    let project = project("allow: []").await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let hook =
        annotated(record("Secret", "sh.helm.release.v1.other.v1", json!({})), json!({"helm.sh/hook": "pre-upgrade"}));
    project.apply("web", json!({"objects": [config("web", "red"), hook]})).await;
    project.not_ready("web", "NotAllowed").await;
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "blue");
    assert!(project.get("v1", "Secret", "sh.helm.release.v1.other.v1").await.is_none());
    assert_eq!(project.status("web").await["deployedRelease"]["revision"], 1);
}

#[tokio::test]
async fn an_existing_record_is_not_adopted_whatever_the_chart_calls_it() {
    let project = project("adopt: objects").await;
    let named = with_type(record("Secret", "sh.helm.release.v1.other.v1", helms_labels("other")), "helm.sh/release.v1");
    // What is left out of an apply stays, so this is a record although the chart does not say so.
    let typed = with_type(record("Secret", "harmless", json!({})), "helm.sh/release.v1");
    let labelled = record("ConfigMap", "labelled", json!({"owner": "helm"}));
    let key = with_type(record("Secret", "key", json!({})), "chartwright.dev/signing-key");
    let _operator = project.run();
    for object in [named, typed, labelled, key] {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let before = project.create(within(&project.namespace, object.clone())).await;
        let cr = format!("wants-{}", name.replace('.', "-"));
        project.apply(&cr, json!({"objects": [record(kind, name, json!({}))]})).await;
        project.annotate(&cr, "chartwright.dev/adopt", "true").await;
        project.decided(&cr).await;
        let after = project.get("v1", kind, name).await.unwrap();
        assert_eq!(identity(&after), identity(&before), "{name}");
        let told = project.not_ready(&cr, "NotAllowed").await;
        assert!(told["message"].as_str().unwrap().contains("which no release may contain"), "{told}");
    }
}

#[tokio::test]
async fn no_setting_shows_a_record_a_token_or_a_key_to_lookup() {
    for setting in ["namespace", "cluster"] {
        // The operator lives there, so whatever names one of its Secrets needs this.
        let project = project(&format!("lookup: {setting}\nallow: [operator-namespace]")).await;
        let secrets = [
            ("record", "helm.sh/release.v1"),
            ("sh.helm.release.v1.other.v1", "Opaque"),
            ("bootstrap", "bootstrap.kubernetes.io/token"),
            ("key", "chartwright.dev/signing-key"),
            ("ledger", "chartwright.dev/release-ledger"),
            ("chartwright-metrics-ca", "Opaque"),
        ];
        for (name, secret_type) in secrets {
            let mut secret = with_type(record("Secret", name, json!({})), secret_type);
            secret["stringData"] = json!({"release": "hidden"});
            project.create(within(&project.namespace, secret)).await;
        }
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
        project.create(within(&project.namespace, account)).await;
        let token = with_type(record("Secret", "token", json!({})), "kubernetes.io/service-account-token");
        let token = annotated(token, json!({"kubernetes.io/service-account.name": "robot"}));
        project.create(within(&project.namespace, token)).await;
        let mut map = record("ConfigMap", "driver", json!({"owner": "helm", "name": "other"}));
        map["data"] = json!({"release": "hidden"});
        project.create(within(&project.namespace, map)).await;
        let mut plain = record("Secret", "plain", json!({}));
        plain["stringData"] = json!({"a": "an ordinary value"});
        project.create(within(&project.namespace, plain)).await;

        let ns = &project.namespace;
        let _operator = project.run();
        let names = secrets.map(|(name, _)| name).into_iter().chain(["token"]);
        let mut objects: Vec<Value> = names
            .map(|name| {
                seen(
                    &format!("one-{}", name.replace('.', "-")),
                    &format!("lookup \"v1\" \"Secret\" \"{ns}\" \"{name}\""),
                )
            })
            .collect();
        objects.push(seen("one-driver", &format!("lookup \"v1\" \"ConfigMap\" \"{ns}\" \"driver\"")));
        objects.push(seen("all", &format!("lookup \"v1\" \"Secret\" \"{ns}\" \"\"")));
        objects.push(seen("maps", &format!("lookup \"v1\" \"ConfigMap\" \"{ns}\" \"\"")));
        project.apply("web", json!({"objects": objects})).await;
        project.deployed("web").await;
        for object in &objects {
            let name = object["metadata"]["name"].as_str().unwrap();
            let found = what_was_seen(&project, name).await;
            assert!(!found.contains("aGlkZGVu") && !found.contains("hidden"), "{setting}: {name}: {found}");
            for hidden in ["robot", "sh.helm", "chartwright.dev/", "bootstrap.kubernetes.io", "helm.sh/release"] {
                assert!(!found.contains(hidden), "{setting}: {name}: {found}");
            }
            if name.starts_with("one-") {
                assert_eq!(found, "\"{}\"", "{setting}: {name}");
            }
        }
        assert!(what_was_seen(&project, "all").await.contains("plain"), "others are shown as before");
        let told = project.events("web", "LookupRefused").await;
        assert!(told.iter().any(|(_, note)| note.contains("are never shown")), "{told:?}");
    }
}

#[tokio::test]
async fn a_token_that_the_chart_makes_is_not_shown_to_the_chart() {
    let project = project("").await;
    let _operator = project.run();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let token = with_type(record("Secret", "robot-token", json!({})), "kubernetes.io/service-account-token");
    let mut token = annotated(token, json!({"kubernetes.io/service-account.name": "robot"}));
    token["stringData"] = json!({"extra": "aaaa"});
    // In the operator's own namespace a token takes more consent than elsewhere.
    let elsewhere = project.another_namespace("tenant").await;
    let cr = |objects: Value| {
        json!({"apiVersion": project.resource.api_version, "kind": "App",
            "metadata": {"name": "web", "namespace": elsewhere}, "spec": {"objects": objects}})
    };
    let crs = project.crs_in(&elsewhere);
    project.create(cr(json!([account, token]))).await;
    crate::harness::until("the token is there", async || {
        project.find("v1", "Secret", Some(&elsewhere), "robot-token").await
    })
    .await;
    let look = seen("seen", &format!("lookup \"v1\" \"Secret\" \"{elsewhere}\" \"robot-token\""));
    let patch = json!({"spec": {"objects": [account, token, look]}});
    crs.patch("web", &Default::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    let map = crate::harness::until("the second revision is there", async || {
        project.find("v1", "ConfigMap", Some(&elsewhere), "seen").await
    })
    .await;
    assert_eq!(map.data["data"]["seen"], "{}");
}

#[tokio::test]
async fn values_come_from_no_record_no_token_and_no_secret_of_the_operator() {
    let project = project("").await;
    let operator = project.run();
    let shows = json!({"objects": [config("shown", "{{ .Values.stolen }}")]});
    project.apply("other", json!({"objects": [config("other", "blue")]})).await;
    project.condition("other", "Ready", "True").await;
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    let ledger =
        secrets.list(&ListParams::default().labels("chartwright.dev/ledger")).await.unwrap().items[0].name_any();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    project.create(within(&project.namespace, account)).await;
    let token = with_type(record("Secret", "token", json!({})), "kubernetes.io/service-account-token");
    let mut token = annotated(token, json!({"kubernetes.io/service-account.name": "robot"}));
    token["stringData"] = json!({"extra": "a value"});
    project.create(within(&project.namespace, token)).await;
    let mut map = record("ConfigMap", "driver", json!({"owner": "helm", "name": "another"}));
    map["data"] = json!({"release": "a value"});
    project.create(within(&project.namespace, map)).await;
    let cases = [
        ("secret", "sh.helm.release.v1.other.v1", "release"),
        ("secret", "sh.helm.release.v1.other.v1", "chartwright"),
        ("configmap", "driver", "release"),
        ("secret", "chartwright-signing-key", "ed25519.pkcs8"),
        ("secret", &ledger, "entry"),
        ("secret", "token", "extra"),
    ];
    project.apply("web", shows.clone()).await;
    project.deployed("web").await;
    let before = project.get("v1", "ConfigMap", "shown").await.unwrap();
    for (kind, name, key) in cases {
        project.annotate("web", "chartwright.dev/values-from", &format!("{kind}/{name}:{key}@stolen")).await;
        project
            .told("web", &format!("the source {name} is refused"), |status| {
                let text = status.to_string();
                (text.contains(name) && text.contains("which never holds values")).then_some(())
            })
            .await;
        let after = project.get("v1", "ConfigMap", "shown").await.unwrap();
        assert_eq!(identity(&after), identity(&before), "{name}");
        let said = project.cli(&["render", &project.named("web")]);
        assert!(said.code == 1 && said.out.is_empty(), "a preview shows it as little: {said:?}");
    }
    drop(operator);
    // The same where the watch asks for it: a name may be made of what the author writes.
    for (number, (kind, name, key)) in cases.into_iter().enumerate() {
        let kind = if kind == "secret" { "Secret" } else { "ConfigMap" };
        project
            .watch_with(&format!("valuesFrom: [{{kind: {kind}, name: {name}, valuesKey: {key}, targetPath: stolen}}]"));
        let _operator = project.run();
        let cr = format!("wants{number}");
        project.apply(&cr, shows.clone()).await;
        let told = project.not_ready(&cr, "InvalidValues").await;
        assert!(told["message"].as_str().unwrap().contains("which never holds values"), "{name}: {told}");
    }
}

#[tokio::test]
async fn a_kind_that_can_only_be_created_is_no_hook() {
    let project = project("").await;
    let _operator = project.run();
    let hook = json!({"helm.sh/hook": "pre-install"});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "pod"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "chosen"}});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
        "metadata": {"name": "review", "namespace": project.namespace},
        "spec": {"user": "a", "resourceAttributes": {"namespace": project.namespace, "verb": "get"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "a", "image": "a"}]}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts = project.objects("v1", "ServiceAccount", Some(&project.namespace));
    if accounts.get_opt("default").await.unwrap().is_none() {
        project.create(within(&project.namespace, account)).await;
    }
    project.create(within(&project.namespace, pod)).await;
    for (cr, object) in [("binds", binding), ("asks", review)] {
        project.apply(cr, json!({"objects": [config(cr, "blue"), annotated(object, hook.clone())]})).await;
        project.decided(cr).await;
        let node = project.get("v1", "Pod", "pod").await.unwrap().data["spec"].get("nodeName").cloned();
        assert_eq!(node, None, "a hook bound the pod");
        let told = project.not_ready(cr, "NotAllowed").await;
        assert!(told["message"].as_str().unwrap().contains("can be created but not read"), "{told}");
        assert!(project.get("v1", "ConfigMap", cr).await.is_none());
    }
    stays(std::time::Duration::from_secs(1), "the pod is not bound", async || {
        project.get("v1", "Pod", "pod").await.unwrap().data["spec"].get("nodeName").cloned()
    })
    .await;
    assert!(project.get("v1", "Pod", "pod").await.unwrap().data["spec"].get("nodeName").is_none());
}
