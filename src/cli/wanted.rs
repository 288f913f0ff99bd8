//! The custom resource of `render`, `diff` and `adopt`: one of the cluster, or one in a file, as it would be stored there.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::access::{Access, Found, Session, Verification};
use super::consent::RecordConsent;
use super::output::tell;
use super::{Project, Usage, named};
use crate::custom_resource::CustomResource;
use crate::discovery::{Cache, Kind};
use crate::error::sentence;
use crate::object::Object;
use crate::preview::{Preview, Scene};
use crate::render::Helm;
use crate::watches::{self, Watch, Watches};
use crate::yaml;

#[derive(Debug, clap::Args)]
pub struct Wanted {
    /// The custom resource: `nginx web` or `nginx/web`
    #[arg(value_name = "KIND NAME", num_args = 1..=2, required_unless_present = "file", conflicts_with = "file")]
    pub resource: Vec<String>,
    /// A file with the custom resource, or - for standard input. It need not be in the cluster.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub project: Project,
    #[command(flatten)]
    pub access: Access,
    #[command(flatten)]
    pub verification: Verification,
    #[command(flatten)]
    pub consent: RecordConsent,
}

/// Everything that a preview needs.
pub struct Ready {
    pub session: Session,
    pub watch: Watch,
    pub helm: Helm,
    pub kinds: Cache,
    /// All kinds in watches.yaml.
    pub watched: Vec<GroupVersionKind>,
    /// Where the operator runs, if that is named.
    pub operator: Option<String>,
    pub cr: CustomResource,
    /// Where it is in the cluster, if it is.
    pub found: Option<Found>,
    consent: RecordConsent,
}

impl Ready {
    pub fn scene(&self) -> Scene<'_> {
        Scene {
            watch: &self.watch,
            helm: &self.helm,
            calls: &self.session.calls,
            kinds: &self.kinds,
            namespace: &self.session.namespace,
            watched: &self.watched,
            operator: self.operator.as_deref(),
            signer: &self.session.signer,
            warn: |warning| tell(&format!("warning: {warning}")),
        }
    }

    /// What the next reconcile would do. Says on stderr where the operator would see the release records differently.
    ///
    /// # Arguments
    /// `act`: what the command would do with the objects of a release record.
    ///
    /// # Errors
    /// Also where the objects come from a record that nothing vouches for, and the person does not consent.
    pub async fn preview(&self, act: &str) -> anyhow::Result<Preview> {
        let preview = Preview::of(&self.cr, &self.scene()).await?;
        self.session.tell_unproven(preview.history.latest());
        let is_trusted = preview.history.latest().is_some_and(|latest| latest.own.is_some());
        match preview.record() {
            Some(record) => self.consent.obtain(act, &self.session, record)?,
            None => self.session.unverified.iter().filter(|_| is_trusted).for_each(|why| {
                tell(&format!("warning: the release record is taken as it is: {why}"));
            }),
        }
        Ok(preview)
    }
}

impl Wanted {
    pub async fn ready(&self) -> anyhow::Result<Ready> {
        let file = self.file.as_deref().map(read).transpose()?;
        let named = match &file {
            None => Some(named::read_only(&self.resource)?),
            Some(_) => None,
        };
        let helm = Helm::find(self.project.helm.as_deref()).await?;
        // Without the file nothing can be said, whatever the cluster has.
        let watched = watches::kinds(&self.project.watches_file)?;
        let session = self.access.connect_verifying(&self.verification).await?;
        let kinds = Cache::new(session.calls.clone()).await?;
        let (watch, cr, found) = match (named, file) {
            (Some(named), _) => {
                let resource = session.kind(&named.kind)?.resource;
                let watch = self.watch(&helm, &resource.group, &resource.kind).await?;
                let found = session.find_as(&kind_of(&watch, &kinds)?, &named.name).await?;
                (watch, found.cr.clone(), Some(found))
            }
            (None, Some(object)) => {
                let gvk = object.gvk();
                let watch = self.watch(&helm, &gvk.group, &gvk.kind).await?;
                let kind = kind_of(&watch, &kinds)?;
                let found = session.get(&kind, object.name(), object.namespace()).await?;
                let cr = stored(&session, &kind, object, found.is_some()).await?;
                (watch, cr, found)
            }
            (None, None) => return Err(Usage("which custom resource? Name it, or a file with -f".to_owned()).into()),
        };
        let operator = self.verification.operator_namespace.clone();
        Ok(Ready { session, watch, helm, kinds, watched, operator, cr, found, consent: self.consent })
    }

    /// The entry of a kind, in whichever version. The charts of others are not loaded: what is wrong with them does not matter here.
    async fn watch(&self, helm: &Helm, group: &str, kind: &str) -> anyhow::Result<Watch> {
        let here = std::env::current_dir().context("cannot find the working directory")?;
        let file = &self.project.watches_file;
        let Watches { entries, warnings } = watches::load_one(file, &here, helm, group, kind).await?;
        // An override that reads the environment may read another here than the operator does.
        warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
        match entries.into_iter().next() {
            Some(watch) => Ok(watch),
            None => {
                let known: Vec<String> = watches::kinds(file)?.iter().map(shown).collect();
                bail!("{} has no entry for {kind}.{group}; it has {}", file.display(), known.join(", "))
            }
        }
    }
}

fn shown(gvk: &GroupVersionKind) -> String {
    format!("{}.{}", gvk.kind, gvk.group)
}

fn kind_of(watch: &Watch, kinds: &Cache) -> anyhow::Result<Kind> {
    let kind = kinds.kinds().get(&watch.gvk).cloned();
    let (kind_name, version) = (shown(&watch.gvk), &watch.gvk.version);
    kind.with_context(|| format!("the cluster does not know {kind_name} in the version {version}; install its CRD"))
}

/// The one custom resource of a file.
fn read(file: &Path) -> anyhow::Result<Object> {
    let name = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let mut text = String::new();
    match file == Path::new("-") {
        true => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        false => std::fs::read_to_string(file).map(|read| text = read),
    }
    .with_context(|| format!("cannot read {name}"))?;
    let documents = yaml::documents(&text).with_context(|| format!("{name} is not YAML"))?;
    let mut documents = documents.into_iter().filter(|document| !document.is_null());
    match (documents.next(), documents.next()) {
        (Some(one), None) => Object::new(one).with_context(|| format!("{name} is no custom resource")),
        (None, _) => bail!("{name} is empty; write one custom resource"),
        (Some(_), Some(_)) => bail!("{name} has several documents; write one custom resource"),
    }
}

/// What the API server would make of a custom resource: it checks it and fills in the defaults of the CRD.
async fn stored(session: &Session, kind: &Kind, object: Object, is_there: bool) -> anyhow::Result<CustomResource> {
    let api: Api<DynamicObject> = match kind.namespaced {
        true => {
            let namespace = object.namespace().unwrap_or(&session.namespace);
            Api::namespaced_with(session.calls.client(), namespace, &kind.resource)
        }
        false => Api::all_with(session.calls.client(), &kind.resource),
    };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let (name, mut value) = (object.name().to_owned(), object.value().clone());
    value["apiVersion"] = kind.resource.api_version.clone().into();
    let answer = match is_there {
        true => {
            let live = session.calls.within(api.get(&name)).await;
            let live = live.map_err(|error| anyhow::anyhow!(sentence(&error)))?;
            let body = serde_json::from_value(over(value, &live)).context("it is no custom resource")?;
            session.calls.within(api.replace(&name, &params, &body)).await
        }
        false => {
            let body = serde_json::from_value(value).context("it is no custom resource")?;
            session.calls.within(api.create(&params, &body)).await
        }
    };
    let shown = format!("{} {name:?}", kind.resource.kind);
    let mut answer =
        answer.map_err(|error| anyhow::anyhow!("the API server refuses the {shown}: {}", sentence(&error)))?;
    if !is_there {
        // That of a dry run belongs to nobody.
        answer.metadata.uid = None;
    }
    // The spec is kept as text, and there is none in a value.
    let text = serde_json::to_string(&answer).context("it is no custom resource")?;
    serde_json::from_str(&text).with_context(|| format!("the {shown} cannot be read"))
}

/// What a file says, over what is there. Labels and annotations of others stay, as `kubectl apply` leaves them.
fn over(mut file: Value, live: &DynamicObject) -> Value {
    let metadata = json!(live.metadata);
    for key in ["resourceVersion", "uid", "finalizers", "ownerReferences", "namespace"] {
        if let Some(value) = metadata.get(key) {
            file["metadata"][key] = value.clone();
        }
    }
    for key in ["labels", "annotations"] {
        let mut merged = metadata.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        merged.extend(file["metadata"][key].as_object().cloned().unwrap_or_default());
        file["metadata"][key] = Value::Object(merged);
    }
    file["status"] = live.data.get("status").cloned().unwrap_or(Value::Null);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_wins_and_what_others_wrote_stays() {
        let live = json!({"metadata": {"name": "web", "uid": "u", "resourceVersion": "7", "finalizers": ["f"],
            "annotations": {"a": "live", "b": "live"}}, "spec": {"x": 1}, "status": {"s": 1}});
        let live: DynamicObject = serde_json::from_value(live).unwrap();
        let file = json!({"metadata": {"name": "web", "annotations": {"a": "file"}}, "spec": {"y": 2}});
        let merged = over(file, &live);
        assert_eq!(merged["metadata"]["annotations"], json!({"a": "file", "b": "live"}));
        assert_eq!((&merged["metadata"]["resourceVersion"], &merged["metadata"]["uid"]), (&json!("7"), &json!("u")));
        assert_eq!((&merged["spec"], &merged["status"]), (&json!({"y": 2}), &json!({"s": 1})));
    }

    #[test]
    fn a_file_holds_one_custom_resource() {
        let dir = tempfile::tempdir().unwrap();
        let complaint = |text: &str| {
            let path = dir.path().join("cr.yaml");
            std::fs::write(&path, text).unwrap();
            read(&path).map(|_| ()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(complaint("---\napiVersion: a/v1\nkind: A\nmetadata: {name: a}\n---\n"), Ok(()));
        for (text, expected) in [
            ("", "is empty"),
            ("a: 1\n---\nb: 2\n", "has several documents"),
            ("kind: A\n", "is no custom resource: it has no apiVersion"),
            ("a: [", "is not YAML: line 1"),
        ] {
            let complaint = complaint(text).unwrap_err();
            assert!(complaint.contains(expected), "{complaint:?} should contain {expected:?}");
        }
        assert!(format!("{:#}", read(&dir.path().join("none")).unwrap_err()).contains("cannot read"));
    }
}
