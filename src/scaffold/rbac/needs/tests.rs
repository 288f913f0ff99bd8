use super::*;
use crate::manifest::survey;

const RENDERED: &str = "\
---
# Source: app/crds/gears.yaml
{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: g}, spec: {group: example.com,
  scope: Namespaced, names: {kind: Gear, plural: gearwheels}, versions: [{name: v1, served: true}]}}
---
# Source: app/templates/all.yaml
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 1}}
---
# Source: app/templates/all.yaml
{apiVersion: example.com/v1, kind: Gear, metadata: {name: g}}
---
# Source: app/templates/all.yaml
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: p}}
---
# Source: app/templates/hooks.yaml
{apiVersion: batch/v1, kind: Job, metadata: {name: j, annotations: {helm.sh/hook: pre-install}}}
---
# Source: app/templates/hooks.yaml
{apiVersion: v1, kind: ServiceAccount, metadata: {name: s, annotations: {helm.sh/hook: pre-install}}}
---
# Source: app/templates/roles.yaml
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: name-of-the-release},
 rules: [{apiGroups: [''], resources: [endpoints], verbs: [get]}, {apiGroups: [''], resources: [secrets], verbs: [get]}]}
---
# Source: app/templates/roles.yaml
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}, roleRef: {kind: ClusterRole, name: view}}
";

fn api() -> Api {
    Api::new("charts.example.com", "v1", "App", true).unwrap()
}

fn serving(api: &Api) -> Serving<'_> {
    Serving {
        api,
        reach: Reach::default().with(Beyond::Cluster),
        account: None,
        is_watching: true,
        crds: Crds::Create,
        looks_up: true,
        sources: BTreeSet::new(),
        generates: false,
        is_namespaced: false,
        escalates: false,
    }
}

fn needs(change: impl Fn(&mut Serving<'_>)) -> Needs {
    let api = api();
    let mut serving = serving(&api);
    change(&mut serving);
    let mut findings = Findings::default();
    findings.add(&survey(RENDERED));
    Needs::joined([Needs::of(&findings, &serving)], serving.is_namespaced)
}

/// `get list` for a resource, and what it is limited to.
fn verbs_on(needs: &Needs, resource: &str) -> Vec<String> {
    let shown = |need: &Need| {
        let verbs: Vec<&str> = need.verbs.iter().map(|verb| verb.as_str()).collect();
        let names: Vec<&str> = need.names.iter().map(String::as_str).collect();
        format!("{} {}", verbs.join(" "), names.join(" ")).trim().to_owned()
    };
    needs.all.iter().filter(|need| need.resource == resource).map(shown).collect()
}

#[test]
fn each_resource_has_the_verbs_that_are_used() {
    let needs = needs(|_| {});
    for (resource, verbs) in [
        ("apps", "get list watch patch"),
        ("apps/status", "patch"),
        ("apps/finalizers", "update"),
        ("deployments", "get list watch create patch delete"),
        ("gearwheels", "get list watch create patch delete"),
        ("priorityclasses", "get list watch create patch delete"),
        ("jobs", "get list watch create patch delete"),
        ("serviceaccounts", "get list watch create delete"),
        ("customresourcedefinitions", "get list watch create"),
        ("namespaces", "get"),
        ("pods", "list"),
        ("pods/log", "get"),
        ("horizontalpodautoscalers", "list watch"),
        ("events", "create patch"),
    ] {
        assert_eq!(verbs_on(&needs, resource), [verbs], "{resource}");
    }
    assert!(verbs_on(&needs, "configmaps").is_empty());
}

#[test]
fn a_watch_decides_about_rights_too() {
    let replacing = needs(|it| it.crds = Crds::CreateReplace);
    assert_eq!(verbs_on(&replacing, "customresourcedefinitions"), ["get list watch create patch"]);
    let skipping = needs(|it| it.crds = Crds::Skip);
    assert_eq!(verbs_on(&skipping, "customresourcedefinitions"), ["list watch"]);
    let blind = needs(|it| it.is_watching = false);
    assert_eq!(verbs_on(&blind, "deployments"), ["get list create patch delete"]);
    let sourced = needs(|it| it.sources = [SourceKind::ConfigMap].into());
    assert_eq!(verbs_on(&sourced, "configmaps"), ["get list watch"]);
}

#[test]
fn what_an_account_does_the_operator_need_not_be_allowed() {
    let needs = needs(|it| it.account = Some("deployer"));
    assert_eq!(verbs_on(&needs, "deployments"), ["list watch"]);
    assert_eq!(verbs_on(&needs, "serviceaccounts"), ["list watch", "impersonate deployer"]);
    assert_eq!(verbs_on(&needs, "secrets"), ["get list watch create patch delete"]);
    assert!(needs.granted.is_empty() && verbs_on(&needs, "clusterroles").is_empty());
}

#[test]
fn what_the_watch_does_not_allow_has_no_rule_but_a_note() {
    let needs = needs(|it| it.reach = Reach::default());
    assert!(verbs_on(&needs, "priorityclasses").is_empty());
    assert!(needs.notes.iter().any(|note| note.contains("PriorityClass") && note.contains("allow: [cluster]")));
}

#[test]
fn what_the_charts_roles_grant_is_needed_unless_it_is_there_already() {
    let exact = needs(|_| {});
    let [granted] = exact.granted.as_slice() else { panic!("{:?}", exact.granted) };
    assert_eq!(granted.rule.shown(), "get on endpoints");
    assert_eq!(verbs_on(&exact, "clusterroles"), ["bind view"]);
    assert!(exact.notes.iter().any(|note| note.contains("the chart makes the Role <release>, which grants")));

    let roles = "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: c}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}\n";
    let granted = |is_namespaced: bool| {
        let api = api();
        let mut findings = Findings::default();
        findings.add(&survey(roles));
        let needs = Needs::of(&findings, &Serving { is_namespaced, ..serving(&api) });
        Needs::joined([needs], is_namespaced).granted.len()
    };
    assert_eq!((granted(false), granted(true)), (0, 1), "a right in some namespaces is none in all");

    let escalating = needs(|it| it.escalates = true);
    assert!(escalating.granted.is_empty());
    let on_roles = ["get list watch create patch delete bind escalate"];
    assert_eq!(verbs_on(&escalating, "roles"), on_roles);
}

#[test]
fn who_makes_a_role_as_a_hook_may_escalate_whatever_its_name() {
    let role = |hook: &str| {
        format!(
            "---\n{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: fixed{hook}}}, rules: [{{apiGroups: [''], resources: [nodes], verbs: [get]}}]}}\n"
        )
    };
    let rights = |text: &str| {
        let api = api();
        let mut findings = Findings::default();
        findings.add(&survey(text));
        let needs = Needs::of(&findings, &Serving { escalates: true, ..serving(&api) });
        verbs_on(&Needs::joined([needs], false), "roles")
    };
    assert_eq!(rights(&role("")), ["get list watch create patch delete", "bind escalate fixed"]);
    let hook = rights(&role(", annotations: {helm.sh/hook: pre-install}"));
    assert_eq!(hook, ["get list watch create delete escalate", "bind fixed"]);
}
