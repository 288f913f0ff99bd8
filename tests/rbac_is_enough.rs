//! `chartwright generate rbac`: what it writes is enough for every step of a release's life, and nothing in it is needless.

mod command;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::harness::command_line::Said;
use crate::harness::{Project, Scope, copy_dir, create_namespace, install_crd, is_too_early, until};

const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_V1: &str = "rbac.authorization.k8s.io/v1";
/// The API server's check of owner references learns of new kinds late, and all cases run at once.
const PATIENCE: Duration = Duration::from_secs(150);

/// A kind, its chart, and how a release of it goes on.
struct Case {
    kind: &'static str,
    /// In this repository.
    chart: &'static str,
    scope: Scope,
    /// More fields of its watch.
    watch: &'static str,
    first: Value,
    /// More objects than before.
    then: Value,
    /// Something that somebody deletes.
    lost: (String, &'static str, &'static str),
}

/// What is there in the namespace `{ns}`.
fn cases(namespace: &str) -> Vec<Case> {
    use Scope::{Cluster, Namespaced};
    let case = |kind, chart, then, lost: (&str, _, _)| {
        let lost = (lost.0.to_owned(), lost.1, lost.2);
        Case { kind, chart, scope: Namespaced, watch: "", first: json!({}), then, lost }
    };
    let gadget = format!("{}/v1", gadgets(namespace));
    let on = json!({"enabled": true});
    let web = json!({"ingress": on, "networkPolicy": on, "podDisruptionBudget": on, "autoscaling": on});
    let neighbour = json!({"neighbour": format!("{namespace}-next"), "colour": "blue"});
    vec![
        case("Web", "helm-charts/nginx", web, ("apps/v1", "Deployment", "web")),
        case("Database", "tests/charts/database", json!({"replicas": 2}), ("apps/v1", "StatefulSet", "database")),
        case("Agent", "tests/charts/agent", json!({"interval": "1m"}), (RBAC_V1, "Role", "agent")),
        Case {
            watch: "  crds: CreateReplace\n",
            ..case("Gadgets", "tests/charts/gadgets", json!({"colour": "red"}), (&gadget, "Gadget", "gadgets"))
        },
        case("Hooked", "tests/charts/hooked", json!({"report": on}), ("v1", "Secret", "hooked-token")),
        case(
            "Umbrella",
            "tests/charts/umbrella",
            json!({"store": {"enabled": true, "kind": "StatefulSet", "policy": on}}),
            ("v1", "ConfigMap", "umbrella"),
        ),
        Case {
            scope: Cluster,
            ..case("Platform", "tests/charts/platform", json!({"colour": "red"}), ("v1", "ServiceAccount", "platform"))
        },
        Case {
            // It binds a ClusterRole, and the operator lives in the same namespace.
            watch: "  allow: [operator-namespace]\n",
            ..case("Roles", "tests/charts/roles", json!({"leases": on}), (RBAC_V1, "RoleBinding", "roles"))
        },
        case("Worker", "tests/charts/worker", json!({"nightly": on}), ("v1", "ConfigMap", "worker")),
        Case {
            watch: "  allow: [other-namespaces, cluster]\n",
            first: neighbour.clone(),
            ..case("Tenant", "tests/charts/tenants", with(neighbour, "colour", "red"), ("v1", "ConfigMap", "tenant"))
        },
        Case {
            watch: "  valuesFrom: [{kind: ConfigMap, name: more, optional: true}]\n  generate: [{name: pin, text: {}, targetPath: pin}]\n",
            ..case("Lists", "tests/charts/lists", json!({"colour": "red"}), ("v1", "Secret", "lists-inner"))
        },
    ]
}

fn with(mut value: Value, key: &str, to: &str) -> Value {
    value[key] = to.into();
    value
}

/// A project with a watch for each case, and an operator that has the rights of its role.
struct Shop {
    project: Project,
    cases: Vec<(Case, ApiResource)>,
}

impl Shop {
    /// With these kinds.
    async fn of(is_wanted: impl Fn(&Case) -> bool) -> Self {
        let project = Project::new("App").await;
        create_namespace(&project.client, &format!("{}-next", project.namespace)).await;
        let (mut cases, mut watches) = (vec![], String::new());
        for case in self::cases(&project.namespace).into_iter().filter(is_wanted) {
            let gvk = GroupVersionKind::gvk(&project.resource.group, "v1", case.kind);
            let resource = ApiResource::from_gvk(&gvk);
            install_crd(&project.client, &resource, case.scope).await;
            let name = Path::new(case.chart).file_name().unwrap().to_str().unwrap();
            let chart = project.dir().join("helm-charts").join(name);
            copy_dir(&lab::checkout().join(case.chart), &chart);
            with_own_group(&chart, &project.namespace);
            watches += &format!(
                "- group: {}\n  version: v1\n  kind: {}\n  chart: helm-charts/{name}\n{}",
                gvk.group, case.kind, case.watch
            );
            if case.scope == Scope::Cluster {
                watches += &format!("  releaseNamespace: {}\n", project.namespace);
            }
            project.files_of_kind(&resource, case.scope, &cr(&resource, &case.first));
            cases.push((case, resource));
        }
        project.file("watches.yaml", &watches);
        Shop { project, cases }
    }

    fn generate(&self, helm: &str, more: &[&str]) -> Said {
        self.project.generate_rbac(helm, more)
    }

    fn role(&self) -> String {
        self.project.role()
    }

    /// Gives the operator what its roles say, and nothing else.
    async fn bind(&self) {
        self.project.bind_role(&self.project.user()).await;
    }

    fn crs(&self, case: &Case, resource: &ApiResource) -> Api<DynamicObject> {
        match case.scope {
            Scope::Cluster => Api::all_with(self.project.client.clone(), resource),
            _ => Api::namespaced_with(self.project.client.clone(), &self.project.namespace, resource),
        }
    }

    /// Install, upgrade, repair, rollback, deletion.
    async fn live(&self, case: &Case, resource: &ApiResource) {
        let (crs, name) = (self.crs(case, resource), case.kind.to_ascii_lowercase());
        let write = async |body: Value| {
            crs.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(body)).await.unwrap();
        };
        write(cr(resource, &case.first)).await;
        settled(&crs, &name, 1).await;
        write(cr(resource, &case.then)).await;
        settled(&crs, &name, 2).await;

        let (api_version, kind, lost) = &case.lost;
        let objects = self.project.objects(api_version, kind, Some(&self.project.namespace));
        let before = objects.get(lost).await.unwrap().uid();
        objects.delete(lost, &DeleteParams::default()).await.unwrap();
        until(&format!("{kind} {lost} comes back"), async || {
            objects.get_opt(lost).await.unwrap().filter(|object| object.uid() != before)
        })
        .await;
        settled(&crs, &name, 2).await;

        let back = json!({"metadata": {"annotations": {"chartwright.dev/rollback-to": "1"}}});
        crs.patch(&name, &PatchParams::default(), &Patch::Merge(back)).await.unwrap();
        settled(&crs, &name, 3).await;

        crs.delete(&name, &DeleteParams::default()).await.unwrap();
        until(&format!("{name} is gone"), async || crs.get_opt(&name).await.unwrap().is_none().then_some(())).await;
    }
}

/// Other tests have the CRD of this chart too, and count on it.
pub fn with_own_group(chart: &Path, namespace: &str) {
    for file in ["crds/gadgets.yaml", "templates/gadgets.yaml"].map(|file| chart.join(file)) {
        if let Ok(text) = std::fs::read_to_string(&file) {
            std::fs::write(file, text.replace("gadgets.example.com", &gadgets(namespace))).unwrap();
        }
    }
}

fn gadgets(namespace: &str) -> String {
    format!("gadgets.{namespace}.test.chartwright.dev")
}

fn cr(resource: &ApiResource, spec: &Value) -> Value {
    let name = resource.kind.to_ascii_lowercase();
    json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec})
}

/// Waits until a revision is there and healthy.
async fn settled(crs: &Api<DynamicObject>, name: &str, revision: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = crs.get(name).await.unwrap().data.get("status").cloned().unwrap_or_default();
        let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(is_ready) && status["deployedRelease"]["revision"] == revision {
            return;
        }
        assert!(Instant::now() < deadline, "{name} is not ready at revision {revision}: {:#}", status["conditions"]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A right: group, resource and verb.
type Right = (String, String, String);

/// What rules give, without those that charts hand on: they need not be used.
fn given(rules: &[Value]) -> BTreeSet<Right> {
    let texts = |rule: &Value, key: &str| -> Vec<String> {
        rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut given = BTreeSet::new();
    for rule in rules {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                let rights = texts(rule, "verbs").into_iter();
                given.extend(rights.map(|verb| (group.clone(), resource.clone(), verb)));
            }
        }
    }
    given
}

fn used(calls: &[Value]) -> BTreeSet<Right> {
    let rights = |call: &Value| {
        let text = |key: &str| call["objectRef"][key].as_str().unwrap_or_default().to_owned();
        let resource = match call["objectRef"]["subresource"].as_str() {
            Some(sub) => format!("{}/{sub}", text("resource")),
            None => text("resource"),
        };
        let verb = call["verb"].as_str().unwrap_or_default();
        // An apply that makes an object needs both rights.
        let makes = verb == "patch" && call["responseStatus"]["code"] == 201;
        let verbs = [Some(verb), makes.then_some("create")].into_iter().flatten();
        verbs.map(|verb| (text("apiGroup"), resource.clone(), verb.to_owned())).collect::<Vec<_>>()
    };
    calls.iter().flat_map(rights).collect()
}

/// Whether a right is there for a day that this test does not have.
fn is_for_another_day((group, resource, verb): &Right) -> bool {
    match (resource.as_str(), verb.as_str()) {
        // A list comes as a watch, but not from older API servers; and a release whose records went is looked for by lists.
        (_, "list") => true,
        // Asked for by the admission of owner references, and by the creation of roles.
        (_, "update") if resource.ends_with("/finalizers") => true,
        (_, "bind" | "escalate") => true,
        // A custom resource that stopped matching a selector.
        (_, "get") if group.ends_with(".test.chartwright.dev") => true,
        ("pods/log", "get") => true,
        ("events", "patch") => true,
        _ => false,
    }
}

/// What was refused for want of a right.
pub fn refused(calls: &[Value]) -> Vec<String> {
    let why = |call: &Value| call["responseStatus"]["message"].as_str().unwrap_or_default().to_owned();
    let calls = calls.iter().filter(|call| call["responseStatus"]["code"] == 403);
    let calls = calls.filter(|call| !is_too_early(call));
    calls.map(|call| format!("{} {} {}", call["verb"], call["requestURI"], why(call))).collect()
}

#[tokio::test]
async fn the_generated_role_is_enough_and_nothing_in_it_is_needless() {
    let shop = Shop::of(|_| true).await;
    let written = shop.generate("helm3", &[]);
    assert_eq!(written.code, 0, "{written:?}");
    let checked = shop.generate("helm4", &["--check"]);
    assert_eq!(
        (checked.code, checked.out.as_str()),
        (0, ""),
        "both helms, and a second run, give the same: {checked:?}"
    );
    let role = shop.role();
    shop.bind().await;
    let since = Timestamp::now();
    let operator = shop.project.launch().limited().start();
    join_all(shop.cases.iter().map(|(case, resource)| shop.live(case, resource))).await;
    let calls = shop.project.audited_since(since);
    drop(operator);
    let refused = refused(&calls);
    assert!(refused.is_empty(), "{refused:#?}\n{role}");

    // What a chart's own roles grant stands behind a comment of its own, and is not for the operator to use.
    let own = chartwright::yaml::parse(role.split("# The charts' ").next().unwrap()).unwrap();
    let used = used(&calls);
    let given = given(own["rules"].as_array().unwrap());
    let is_needless = |right: &&Right| !used.contains(right) && !is_for_another_day(right);
    let needless: Vec<&Right> = given.iter().filter(is_needless).collect();
    assert!(needless.is_empty() && given.len() > 50, "{needless:#?}\n{role}");
}

#[tokio::test]
async fn a_role_is_enough_where_namespaces_are_named() {
    let shop = Shop::of(|case| matches!(case.kind, "Web" | "Hooked")).await;
    let written = shop.generate("helm4", &["--namespaced"]);
    assert_eq!(written.code, 0, "{written:?}");
    shop.bind().await;
    let since = Timestamp::now();
    let _operator = shop.project.launch().limited().env("WATCH_NAMESPACE", &shop.project.namespace).start();
    join_all(shop.cases.iter().map(|(case, resource)| shop.live(case, resource))).await;
    let refused = refused(&shop.project.audited_since(since));
    assert!(refused.is_empty(), "{refused:#?}\n{}", shop.role());
}

/// An object is applied by its name, a hook is created without one in the request: the check of `escalate` sees that.
#[tokio::test]
async fn who_may_escalate_can_make_roles_as_objects_and_as_hooks() {
    // A chart without other Roles, one of which might be called after the release.
    let shop = Shop::of(|case| case.kind == "Lists").await;
    let hook = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: before\n  annotations:\n    \
                helm.sh/hook: pre-install\nrules:\n- apiGroups: [batch]\n  resources: [cronjobs]\n  verbs: [get]\n";
    shop.project.file("helm-charts/lists/templates/before.yaml", hook);
    let object = hook.replace("name: before\n  annotations:\n    helm.sh/hook: pre-install", "name: fixed");
    shop.project.file("helm-charts/lists/templates/fixed.yaml", &object);
    let written = shop.generate("helm4", &["--escalate"]);
    assert_eq!(written.code, 0, "{written:?}");
    shop.bind().await;
    let since = Timestamp::now();
    let _operator = shop.project.launch().limited().start();
    let (case, resource) = &shop.cases[0];
    let crs = shop.crs(case, resource);
    crs.patch("lists", &PatchParams::apply("test").force(), &Patch::Apply(cr(resource, &case.first))).await.unwrap();
    settled(&crs, "lists", 1).await;
    let refused = refused(&shop.project.audited_since(since));
    assert!(refused.is_empty(), "{refused:#?}\n{}", shop.role());
}

/// The account may do everything in its namespace; the operator has what is generated.
#[tokio::test]
async fn an_operator_that_acts_as_an_account_needs_no_rights_to_write_objects() {
    let shop = Shop::of(|case| case.kind == "Hooked").await;
    let (project, namespace) = (&shop.project, shop.project.namespace.as_str());
    let watches = std::fs::read_to_string(project.dir().join("watches.yaml")).unwrap();
    project.file("watches.yaml", &(watches + "  serviceAccountName: deployer\n"));
    assert_eq!(shop.generate("helm4", &[]).code, 0);
    assert!(!shop.role().contains("- jobs\n  verbs:\n  - get\n  - list\n  - watch\n  - create"), "{}", shop.role());
    let operator = format!("system:serviceaccount:{namespace}:operator");
    project.bind_role(&operator).await;
    let binding = json!({"apiVersion": RBAC_V1, "kind": "RoleBinding", "metadata": {"name": "deployer", "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}]});
    project.create(binding).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(project.client.clone(), namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": "operator"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..Default::default() };
    let token = accounts.create_token_request("operator", &PostParams::default(), &request).await.unwrap();
    let _operator = project.launch().token(token.status.unwrap().token).start();
    let (case, resource) = &shop.cases[0];
    shop.live(case, resource).await;
    let log = std::fs::read_to_string(project.plane().audit_log()).unwrap();
    let calls = log.lines().filter(|line| line.contains(&operator)).filter_map(|line| serde_json::from_str(line).ok());
    // Its own calls, and those that it may not even make as the account.
    let calls: Vec<Value> = calls.filter(|call: &Value| call["user"]["username"] == operator.as_str()).collect();
    assert!(calls.len() > 20 && refused(&calls).is_empty(), "{:#?}\n{}", refused(&calls), shop.role());
}
