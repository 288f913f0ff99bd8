use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;

use super::*;
use crate::discovery::Kind;
use crate::manifest;
use crate::object::Object;
use crate::plan::{Judged, Planned};

fn id(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectId {
    ObjectId {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        namespace: namespace.map(str::to_owned),
        name: name.into(),
    }
}

fn kinds() -> Kinds {
    let kind = |group: &str, kind: &str, namespaced| {
        let gvk = GroupVersionKind::gvk(group, "v1", kind);
        (
            gvk.clone(),
            Kind { resource: ApiResource::from_gvk(&gvk), namespaced, has_status: false, is_manageable: true },
        )
    };
    Kinds::of([
        kind("", "ConfigMap", true),
        kind("", "Namespace", false),
        kind("rbac.authorization.k8s.io", "ClusterRole", false),
        kind("batch", "Job", true),
    ])
}

fn app() -> GroupVersionKind {
    GroupVersionKind::gvk("example.com", "v1", "App")
}

fn beyond(id: ObjectId, is_namespaced: bool) -> Vec<Beyond> {
    let watched = [app(), GroupVersionKind::gvk("example.com", "v1", "Plat")];
    let home = Home { namespace: "here", kind: &app(), watched: &watched };
    Outside::of(id, is_namespaced, &home).into_iter().map(|it| it.beyond).collect()
}

fn scope(gvk: &GroupVersionKind) -> Option<bool> {
    kinds().get(gvk).map(|kind| kind.namespaced)
}

fn trial(text: &str) -> Trial {
    Trial::made(&manifest::read(text).unwrap(), "here")
}

#[test]
fn a_cluster_scoped_object_is_outside_whatever_namespace_it_names() {
    let home = Home { namespace: "here", kind: &app(), watched: &[] };
    let role = Outside::of(id("rbac.authorization.k8s.io", "ClusterRole", Some("here"), "r"), false, &home).remove(0);
    assert_eq!((role.beyond, role.id.namespace), (Beyond::Cluster, None));
    let config = |namespace| beyond(id("", "ConfigMap", namespace, "c"), true);
    assert_eq!(config(None), []);
    assert_eq!(config(Some("here")), []);
    assert_eq!(config(Some("there")), [Beyond::OtherNamespaces]);
    // Names are compared letter by letter.
    assert_eq!(config(Some("here ")), [Beyond::OtherNamespaces]);
}

#[test]
fn a_custom_resource_of_another_watched_kind_is_beyond_wherever_it_is() {
    let of = |kind: &str, namespace| beyond(id("example.com", kind, namespace, "a"), true);
    assert_eq!(of("Plat", None), [Beyond::WatchedKinds]);
    assert_eq!(of("Plat", Some("there")), [Beyond::OtherNamespaces, Beyond::WatchedKinds]);
    assert_eq!(beyond(id("example.com", "Plat", None, "a"), false), [Beyond::Cluster, Beyond::WatchedKinds]);
    assert_eq!(of("App", None), [], "its own kind is served by the same watch");
    assert_eq!(beyond(id("other.com", "Plat", None, "a"), true), []);
}

#[test]
fn a_watched_kind_that_the_chart_makes_by_default_allows_no_other() {
    let [first, second] = ["Plat", "Shop"].map(|kind| GroupVersionKind::gvk("example.com", "v1", kind));
    let watched = [app(), first.clone(), second.clone()];
    let text = "apiVersion: example.com/v1\nkind: Plat\nmetadata: {name: p}\n";
    let by_default = trial(text).allowance(&app(), &watched, |_| Some(true));
    assert_eq!(by_default.to_string(), "allowed by default: watched-kinds, since the chart makes Plat p");
    let outside = |gvk: &GroupVersionKind| {
        let id = id(&gvk.group, &gvk.kind, None, "x");
        Outside::of(id, true, &Home { namespace: "here", kind: &app(), watched: &watched })
    };
    assert!(by_default.check(outside(&first)).is_ok());
    let refused = by_default.check(outside(&second)).unwrap_err().to_string();
    assert!(refused.starts_with("outside of the release's namespace, or of another kind in watches.yaml: Shop x;"));
    assert!(refused.contains("set `allow: [watched-kinds]` in watches.yaml"), "{refused}");
    let widened = Allowance { reach: Reach::default().with(Beyond::WatchedKinds), says: Says::Watch };
    assert!(widened.check(outside(&second)).is_ok());
}

#[test]
fn a_refusal_names_the_object_and_the_setting() {
    let outside = || vec![Outside { id: id("", "ConfigMap", Some("there"), "c"), beyond: Beyond::OtherNamespaces }];
    let allowance = Allowance { reach: Reach::default().with(Beyond::Cluster), says: Says::Watch };
    assert_eq!(
        allowance.check(outside()).unwrap_err().to_string(),
        "outside of the release's namespace: ConfigMap there/c; that is not allowed: change the spec so that it is left out, or set `allow: [other-namespaces, cluster]` in watches.yaml"
    );
    let allowance = Allowance { reach: Reach::default().with(Beyond::OtherNamespaces), says: Says::Watch };
    assert!(allowance.check(outside()).is_ok());
}

#[test]
fn the_default_is_what_the_chart_makes_with_its_default_values() {
    let plain =
        trial("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: here}\n").allowance(&app(), &[], scope);
    assert_eq!(plain.reach, Reach::default());
    assert_eq!(
        plain.to_string(),
        "releases of this kind are limited to their own namespace (set `allow` in watches.yaml to change this)"
    );
    let text = "\
# Source: app/templates/a.yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
---
# Source: app/templates/b.yaml
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: there, annotations: {helm.sh/hook: pre-install}}
";
    let wide = trial(text).allowance(&app(), &[], scope);
    assert_eq!(
        wide.to_string(),
        "allowed by default: other-namespaces, cluster, since the chart makes ClusterRole r, Job there/j"
    );
}

#[test]
fn the_contents_of_crds_allow_nothing_but_templated_crds_do() {
    let crd = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Gear, plural: gears}
  versions: [{name: v1, served: true}]
";
    let apiextensions = |gvk: &GroupVersionKind| match gvk.group.as_str() {
        "apiextensions.k8s.io" => Some(false),
        _ => scope(gvk),
    };
    let shipped = trial(&format!("---\n# Source: app/crds/gears.yaml\n{crd}"));
    assert_eq!(shipped.allowance(&app(), &[], apiextensions).reach, Reach::default());
    let templated = trial(&format!("---\n# Source: app/templates/gears.yaml\n{crd}"));
    assert!(templated.allowance(&app(), &[], apiextensions).reach.covers(Beyond::Cluster));
    // An object of the kind that crds/ bring: its scope is known from there.
    let used = "---\n# Source: app/templates/gear.yaml\napiVersion: example.com/v1\nkind: Gear\nmetadata: {name: g}\n";
    let used = trial(&format!("---\n# Source: app/crds/gears.yaml\n{crd}{used}"));
    assert!(used.allowance(&app(), &[], apiextensions).reach.covers(Beyond::Cluster));
}

#[test]
fn nothing_is_allowed_by_a_kind_that_nobody_knows_or_by_a_chart_that_does_not_render() {
    let unknown = trial("apiVersion: example.com/v1\nkind: Gear\nmetadata: {name: g}\n").allowance(&app(), &[], scope);
    assert_eq!(unknown.reach, Reach::default());
    let refused = Trial::Refused("host is required".into()).allowance(&app(), &[], scope);
    assert_eq!(refused.reach, Reach::default());
    assert!(refused.to_string().contains("(host is required); set `allow`"), "{refused}");
}

#[test]
fn hooks_are_looked_at_and_tests_are_not() {
    let text = |events: &str| {
        format!(
            "apiVersion: v1\nkind: List\nmetadata: {{annotations: {{helm.sh/hook: '{events}'}}}}\nitems:\n\
             - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}}}\n\
             - {{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: r}}}}\n"
        )
    };
    let outside = |events: &str| {
        let rendered = manifest::read(&text(events)).unwrap();
        let hooks: Vec<HookRecord> = rendered.hooks.iter().map(crate::hooks::recorded).collect();
        of_hooks(&hooks, &Home { namespace: "here", kind: &app(), watched: &[] }, &kinds())
            .into_iter()
            .map(|it| it.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(outside("pre-delete"), ["ClusterRole r"]);
    assert_eq!(outside("test"), Vec::<String>::new());
    assert_eq!(outside("test,post-install"), ["ClusterRole r"]);
    // What is never made allows nothing either.
    let by_default = |events: &str| trial(&text(events)).allowance(&app(), &[], scope).reach.covers(Beyond::Cluster);
    assert_eq!(["pre-delete", "test", "test,post-install"].map(by_default), [true, false, true]);
}

#[test]
fn scopes_of_kubernetes_own_kinds_are_known_without_a_cluster() {
    let known = |group: &str, kind: &str| scopes::is_namespaced(&GroupVersionKind::gvk(group, "v1", kind));
    assert_eq!(known("", "Namespace"), Some(false));
    assert_eq!(known("", "Secret"), Some(true));
    assert_eq!(known("apps", "Deployment"), Some(true));
    assert_eq!(known("rbac.authorization.k8s.io", "ClusterRole"), Some(false));
    assert_eq!(known("rbac.authorization.k8s.io", "Role"), Some(true));
    assert_eq!(known("example.com", "Gear"), None);
}

#[test]
fn the_ways_to_kubernetes_own_kinds_are_known_too() {
    use scopes::Scope;
    assert_eq!(scopes::resource("networking.k8s.io", "Ingress"), Some(("ingresses", Scope::Namespaced)));
    assert_eq!(scopes::resource("storage.k8s.io", "StorageClass"), Some(("storageclasses", Scope::Cluster)));
    assert_eq!(scopes::resource("", "Gear"), None);
    assert_eq!(
        ["Ingress", "Event", "Role"].map(scopes::group_of),
        [Some("networking.k8s.io"), Some(""), Some("rbac.authorization.k8s.io")]
    );
    assert_eq!(scopes::group_of("Gear"), None);
}

#[test]
fn the_steps_grow_with_the_objects() {
    let watched = [app(), GroupVersionKind::gvk("example.com", "v1", "Plat")];
    let home = Home { namespace: "here", kind: &app(), watched: &watched };
    let plats = |number: usize| -> Vec<Outside> {
        (0..number)
            .flat_map(|it| Outside::of(id("example.com", "Plat", None, &format!("p{it}")), true, &home))
            .collect()
    };
    crate::steps::assert_linear("check", |number| {
        let allowance =
            Allowance { reach: Reach::default().with(Beyond::WatchedKinds), says: Says::Defaults(plats(number)) };
        crate::steps::of(|| allowance.check(plats(number)).unwrap())
    });
    crate::steps::assert_linear("of_plan", |number| {
        let kind = kinds().get(&GroupVersionKind::gvk("", "v1", "ConfigMap")).unwrap().clone();
        let planned = |it: usize| {
            let metadata = serde_json::json!({"name": format!("c{it}"), "namespace": "there"});
            let object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            Planned::new(Object::new(object).unwrap(), kind.clone(), Judged::Wholly)
        };
        let plan = Plan { apply: (0..number).map(planned).collect(), ..Plan::default() };
        crate::steps::of(|| assert_eq!(of_plan(&plan, &home).len(), number))
    });
}
