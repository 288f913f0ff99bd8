//! Asking the cluster for what goes into a bundle. One thing that cannot be had keeps no other from it.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};

use super::bundle::{Bundle, file_name};
use super::operator::{Lines, OperatorPart};
use super::{Args, masking};
use crate::chart::Chart;
use crate::cli::access::{Found, Session};
use crate::cli::status::look::{self, Which};
use crate::cli::status::rows::{self, Look};
use crate::cli::status::told::Told;
use crate::cli::status::tree::Node as Tree;
use crate::cli::status::{self, picture::Picture};
use crate::discovery::{Cache, Kind, Kinds};
use crate::error::sentence;
use crate::release::mask::{self, MASK};
use crate::render::Helm;
use crate::trust::{ledger, window};
use crate::{watches, yaml};

/// Custom resources that are looked at one by one. The table has all of them.
const IN_DETAIL: usize = 200;
const EVENTS: u32 = 2000;

pub struct Collector<'a> {
    pub args: &'a Args,
    /// Tells a person who watches what is being done.
    pub progress: &'a dyn Fn(&str),
}

impl Collector<'_> {
    /// # Errors
    /// Only where there is no cluster to ask.
    pub async fn collect(&self, bundle: &mut Bundle) -> anyhow::Result<()> {
        (self.progress)("connecting");
        let mut session = self.args.access.connect().await?;
        let kinds = Cache::new(session.calls.clone()).await?.kinds();
        self.versions(&session, &kinds, bundle).await;
        self.project(bundle);
        (self.progress)("looking for the operator");
        let operator = OperatorPart::find(&session, self.args.deployment.as_deref(), bundle).await;
        if let Some(operator) = &operator {
            // There are the releases of cluster-scoped kinds.
            session.namespace.clone_from(&operator.namespace);
        }
        (self.progress)("looking for custom resources");
        let (resources, mut are_all) = self.resources(&session, bundle).await;
        let mut namespaces: BTreeSet<String> =
            resources.iter().filter_map(|(_, it)| it.metadata.namespace.clone()).collect();
        namespaces.extend(operator.as_ref().map(|operator| operator.namespace.clone()));
        let (mut details, mut are_learned) = (vec![], true);
        for (kind, told) in resources.iter().take(IN_DETAIL) {
            (self.progress)(&format!("looking at the {}", told.shown()));
            let (detail, is_learned) = self.detail(&session, &kinds, kind, told, bundle).await;
            are_learned &= is_learned;
            walk(detail.objects(), &mut |node| namespaces.extend(node.namespace.clone()));
            details.push(detail);
        }
        if resources.len() > IN_DETAIL {
            are_all = false;
            let more = resources.len() - IN_DETAIL;
            bundle.lacks("resources", &format!("{more} more are only in status.txt; name a namespace with -n"));
        }
        spare_names(&resources, &details, &namespaces, bundle);
        (self.progress)("reading Secrets, to leave their values out");
        // Whoever knows of no namespace has read no Secret at all.
        let are_found = resources.is_empty() || !namespaces.is_empty();
        let is_blind = !self.learn_secrets(&session, &namespaces, bundle).await || !are_found || !are_learned;
        table(&resources, is_blind, bundle);
        details.iter().for_each(|detail| detail.write(is_blind, bundle));
        let pictures: Vec<&Picture> = details.iter().filter_map(|detail| detail.picture.as_ref()).collect();
        if is_blind {
            bundle.lacks(
                "messages, annotations, events and logs",
                "not all Secrets could be read, or not all records of releases, so their values could not be looked for in them",
            );
        } else {
            (self.progress)("reading events");
            self.events(&session, &resources, &pictures, bundle).await;
        }
        if let Some(operator) = operator {
            (self.progress)("reading the operator's logs, Lease, metrics and rights");
            let examined = resources.iter().take(IN_DETAIL).map(|(_, told)| told.metadata.clone());
            let lines = Lines { are_all, examined: examined.map(|it| (it.namespace, it.name)).collect() };
            let logs = (!is_blind).then_some(&lines);
            operator.collect(&session, &kinds, &pictures, logs, bundle).await;
        }
        Ok(())
    }

    async fn versions(&self, session: &Session, kinds: &Kinds, bundle: &mut Bundle) {
        let client = session.calls.client();
        let kubernetes = session.calls.within(client.apiserver_version()).await;
        let helm = Helm::find(self.args.project.helm.as_deref()).await;
        if let Err(error) = &helm {
            bundle.lacks("helm's version", &error.to_string());
        }
        let nodes: Api<Node> = Api::all(client);
        let nodes = match session.calls.within(nodes.list(&ListParams::default().limit(500))).await {
            Ok(nodes) => nodes.items.iter().map(node).collect(),
            Err(error) => {
                bundle.lacks("nodes", &sentence(&error));
                Value::Null
            }
        };
        bundle.data(
            "versions.yaml",
            json!({
                "chartwright": env!("CARGO_PKG_VERSION"),
                "helm": helm.ok().map(|helm| helm.version),
                "kubernetes": kubernetes.map_or_else(|error| sentence(&error), |info| info.git_version),
                "taken": Timestamp::now().to_string(),
                "nodes": nodes,
            }),
        );
        bundle.text("api-versions.txt", &kinds.capabilities.api_versions.join("\n"));
    }

    /// watches.yaml and the charts' metadata, if this is a project.
    fn project(&self, bundle: &mut Bundle) {
        let file = &self.args.project.watches_file;
        let read = std::fs::read_to_string(file).map_err(|error| error.to_string());
        let parsed = read.and_then(|text| yaml::parse(&text).map_err(|error| error.to_string()));
        let entries = match parsed {
            Ok(entries) => {
                let mut taken = vec![];
                let entries = masking::watches(entries, &mut taken);
                bundle.hide_taken(taken);
                entries
            }
            Err(why) => return bundle.lacks(&format!("watches.yaml ({})", file.display()), &why),
        };
        for entry in entries.as_array().into_iter().flatten() {
            let kind = entry["kind"].as_str().unwrap_or_default();
            let path = format!("charts/{}.yaml", file_name(kind));
            let chart = Chart::load(Path::new(entry["chart"].as_str().unwrap_or_default()));
            let facts = chart.map(
                |chart| json!({"chart": chart.metadata, "digest": chart.digest, "asks": format!("{:?}", chart.asks)}),
            );
            bundle.data_or(&path, facts.map_err(|error| error.to_string()));
        }
        bundle.data("watches.yaml", entries);
    }

    /// The custom resources, and whether these are all that the operator may have to do with.
    async fn resources(&self, session: &Session, bundle: &mut Bundle) -> (Vec<(Kind, Told)>, bool) {
        let file =
            Some(self.args.project.watches_file.as_path()).filter(|file| file.exists() && watches::kinds(file).is_ok());
        let namespace = self.args.access.namespace.as_deref();
        let (mut all, mut are_all) = (vec![], namespace.is_none());
        let kinds = status::all_kinds(session, file, namespace).await.unwrap_or_else(|error| {
            are_all = false;
            bundle.lacks("custom resources", &format!("{error:#}"));
            vec![]
        });
        for kind in kinds {
            match look::list(session, &kind, &Which { namespace, ..Which::default() }).await {
                Ok(list) => all.extend(list.into_iter().map(|told| (kind.clone(), told))),
                Err(error) => {
                    are_all = false;
                    bundle.lacks(&kind.resource.plural, &sentence(&error));
                }
            }
        }
        (all, are_all)
    }

    /// The custom resource, its release and its objects. What must not be shown of them is learned; also told is whether it was.
    async fn detail(
        &self,
        session: &Session,
        kinds: &Kinds,
        kind: &Kind,
        told: &Told,
        bundle: &mut Bundle,
    ) -> (Detail, bool) {
        let place = place(told);
        let mut detail = Detail { place: place.clone(), ..Detail::default() };
        match self.resource(session, kind, told).await {
            Ok(cr) => {
                let mut taken = vec![];
                masking::resource(cr.clone(), false, &mut taken);
                bundle.hide_taken(taken);
                detail.resource = Some(cr);
            }
            Err(why) => bundle.lacks(&format!("{place}/resource.yaml"), &why),
        }
        let found = session.get(kind, &told.metadata.name, told.metadata.namespace.as_deref()).await;
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                bundle.lacks(&place, "it was deleted in the meantime");
                return (detail, false);
            }
            Err(error) => {
                bundle.lacks(&place, &error.to_string());
                return (detail, false);
            }
        };
        let history = self.history(session, &found, bundle).await;
        let is_learned = history.is_ok();
        match history {
            Ok(history) => detail.history = Some(history),
            Err(why) => bundle.lacks(&format!("{place}/history.yaml"), &why),
        }
        match look::picture(session, kinds, &found, false).await {
            Ok(picture) => detail.picture = picture,
            Err(error) => bundle.lacks(&format!("{place}/status.txt"), &error.to_string()),
        }
        (detail, is_learned)
    }

    /// The revisions of a release. What must not be shown of them is learned.
    async fn history(&self, session: &Session, found: &Found, bundle: &mut Bundle) -> Result<Value, String> {
        let history = session.history(found).await.map_err(|error| error.to_string())?;
        if history.is_empty() && found.was_deployed() {
            let namespace = found.release_namespace(&session.namespace);
            return Err(format!(
                "there are no records of the release {} in the namespace {namespace}",
                found.release()
            ));
        }
        mask::learn(bundle.redactor(), history.iter());
        for release in history.iter() {
            let manifest = release.manifest.read();
            bundle.hide(masking::manifest_secrets(&manifest));
            bundle.hide_taken(masking::suspicious_of_release(release.config.value(), &manifest));
        }
        Ok(history.iter().map(masking::revision).collect())
    }

    /// Whether all Secrets could be read.
    async fn learn_secrets(&self, session: &Session, namespaces: &BTreeSet<String>, bundle: &mut Bundle) -> bool {
        let mut all = true;
        for namespace in namespaces {
            let api: Api<Secret> = Api::namespaced(session.calls.client(), namespace);
            // Records are known by their own ways, and large. The ledger and the window hold names of releases, and no secrets.
            let without = ["helm.sh/release.v1", ledger::TYPE, window::TYPE].map(|kind| format!("type!={kind}"));
            let params = ListParams::default().fields(&without.join(","));
            match session.calls.within(api.list(&params)).await {
                Ok(list) => list.items.iter().for_each(|secret| bundle.hide(masking::texts(secret))),
                Err(error) => {
                    all = false;
                    bundle.lacks(&format!("specs of custom resources (the Secrets of {namespace})"), &sentence(&error));
                }
            }
        }
        all
    }

    async fn resource(&self, session: &Session, kind: &Kind, told: &Told) -> Result<Value, String> {
        let client = session.calls.client();
        let api: Api<DynamicObject> = match told.metadata.namespace.as_deref() {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind.resource),
            None => Api::all_with(client, &kind.resource),
        };
        let live = session.calls.within(api.get(&told.metadata.name)).await.map_err(|error| sentence(&error));
        live.and_then(|live| serde_json::to_value(live).map_err(|error| error.to_string()))
    }

    /// What was told about the custom resources and their objects.
    async fn events(&self, session: &Session, resources: &[(Kind, Told)], pictures: &[&Picture], bundle: &mut Bundle) {
        let mut meant: BTreeSet<(String, String)> = BTreeSet::new();
        let mut namespaces: BTreeSet<String> = BTreeSet::new();
        for (_, told) in resources {
            meant.insert((told.kind.clone(), told.metadata.name.clone()));
            // Those of cluster-scoped ones are in the namespace `default`.
            namespaces.insert(told.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()));
        }
        for picture in pictures {
            walk(&picture.objects, &mut |node| {
                meant.insert((node.kind.clone(), node.name.clone()));
                namespaces.extend(node.namespace.clone());
            });
        }
        for namespace in namespaces {
            let api: Api<Event> = Api::namespaced(session.calls.client(), &namespace);
            let path = format!("events/{}.yaml", file_name(&namespace));
            match session.calls.within(api.list(&ListParams::default().limit(EVENTS))).await {
                Ok(list) => {
                    bundle.data(path, list.items.iter().filter(|event| is_about(event, &meant)).map(event).collect())
                }
                Err(error) => bundle.lacks(&path, &sentence(&error)),
            }
        }
    }
}

/// What was found of a custom resource. It is written when it is known what may be shown.
#[derive(Default)]
struct Detail {
    place: String,
    resource: Option<Value>,
    history: Option<Value>,
    picture: Option<Picture>,
}

impl Detail {
    fn objects(&self) -> &[Tree] {
        self.picture.as_ref().map_or(&[], |picture| &picture.objects)
    }

    fn write(&self, is_blind: bool, bundle: &mut Bundle) {
        let place = &self.place;
        if let Some(cr) = &self.resource {
            bundle.data(format!("{place}/resource.yaml"), masking::resource(cr.clone(), is_blind, &mut vec![]));
        }
        if let Some(mut history) = self.history.clone() {
            if is_blind {
                masking::quotes(&mut history);
            }
            bundle.data(format!("{place}/history.yaml"), history);
        }
        if let Some(picture) = self.picture.clone() {
            let picture = if is_blind { picture.without_quotes() } else { picture };
            bundle.text(format!("{place}/status.txt"), &picture.text(false, Timestamp::now()));
            bundle.data(format!("{place}/tree.yaml"), picture.data());
        }
    }
}

/// All custom resources.
fn table(resources: &[(Kind, Told)], is_blind: bool, bundle: &mut Bundle) {
    let shown = |told: &Told| if is_blind { told.clone().without_quotes() } else { told.clone() };
    let told: Vec<Told> = resources.iter().map(|(_, told)| shown(told)).collect();
    let look = Look { wide: true, namespaces: true, ..Look::default() };
    bundle.text("status.txt", &rows::text(&told, look, Timestamp::now()));
}

fn spare_names(resources: &[(Kind, Told)], details: &[Detail], namespaces: &BTreeSet<String>, bundle: &mut Bundle) {
    bundle.spare(namespaces.iter().cloned());
    for (_, told) in resources {
        bundle.spare([told.kind.clone(), told.metadata.name.clone()]);
    }
    for detail in details {
        walk(detail.objects(), &mut |node| bundle.spare([node.kind.clone(), node.name.clone()]));
    }
}

fn walk(nodes: &[Tree], visit: &mut impl FnMut(&Tree)) {
    for node in nodes {
        visit(node);
        walk(&node.below, visit);
    }
}

/// Where the files of a custom resource are.
fn place(told: &Told) -> String {
    let namespace = told.metadata.namespace.as_deref().unwrap_or("cluster");
    let kind = format!("{}.{}", told.kind, told.group);
    format!("resources/{}/{}/{}", file_name(namespace), file_name(&kind), file_name(&told.metadata.name))
}

fn node(node: &Node) -> Value {
    let status = json!(node.status);
    let ready = status["conditions"].as_array().into_iter().flatten().find(|it| it["type"] == "Ready");
    json!({
        "name": node.metadata.name,
        "kubelet": status["nodeInfo"]["kubeletVersion"],
        "system": format!("{}/{}", status["nodeInfo"]["operatingSystem"].as_str().unwrap_or_default(),
            status["nodeInfo"]["architecture"].as_str().unwrap_or_default()),
        "ready": ready.map(|ready| &ready["status"]),
    })
}

fn is_about(event: &Event, meant: &BTreeSet<(String, String)>) -> bool {
    let regarding = event.regarding.as_ref();
    let kind = regarding.and_then(|it| it.kind.clone()).unwrap_or_default();
    let name = regarding.and_then(|it| it.name.clone()).unwrap_or_default();
    meant.contains(&(kind, name))
}

fn event(event: &Event) -> Value {
    let regarding = event.regarding.as_ref();
    // The one event that tells of values of watches.yaml.
    let is_told = event.reason.as_deref() != Some("OverrideValuesInUse");
    let note = event.note.as_deref().map(|note| if is_told { note } else { MASK });
    json!({
        "regarding": format!("{} {}", regarding.and_then(|it| it.kind.as_deref()).unwrap_or_default(),
            regarding.and_then(|it| it.name.as_deref()).unwrap_or_default()),
        "type": event.type_,
        "reason": event.reason,
        "action": event.action,
        "note": note,
        "by": event.reporting_controller,
        "time": event.event_time.as_ref().map(|time| time.0.to_string())
            .or(event.deprecated_last_timestamp.as_ref().map(|time| time.0.to_string())),
        "count": event.series.as_ref().map(|series| series.count).or(event.deprecated_count),
    })
}
