//! Helm's JSON, read into a [`Release`] and written over what was there before.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::super::{HookRecord, Release, Status, Stored, time};

/// The fields that we read. `lock`, `templates` and the like are not among them.
#[derive(Deserialize)]
struct Reading {
    name: String,
    version: u32,
    #[serde(default, deserialize_with = "nullable")]
    namespace: String,
    #[serde(default, deserialize_with = "nullable")]
    info: Info,
    #[serde(default, deserialize_with = "nullable")]
    chart: Chart,
    #[serde(default, deserialize_with = "nullable")]
    config: Map<String, Value>,
    #[serde(default, deserialize_with = "nullable")]
    manifest: String,
    #[serde(default, deserialize_with = "nullable")]
    hooks: Vec<HookRecord>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    #[serde(with = "time::optional")]
    first_deployed: Option<Timestamp>,
    #[serde(with = "time::optional")]
    last_deployed: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    description: String,
    #[serde(deserialize_with = "nullable")]
    status: String,
    #[serde(deserialize_with = "nullable")]
    notes: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chart {
    #[serde(deserialize_with = "nullable")]
    metadata: Map<String, Value>,
    #[serde(deserialize_with = "nullable")]
    values: Map<String, Value>,
}

/// Go reads null as the zero value, and writes it for a nil list.
pub fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Without what is not in the JSON: `own` and `stored`.
pub fn read(helm: &Value) -> Result<Release, serde_json::Error> {
    let reading = Reading::deserialize(helm)?;
    Ok(Release {
        name: reading.name,
        namespace: reading.namespace,
        revision: reading.version,
        status: Status::parse(&reading.info.status),
        chart: reading.chart.metadata.into(),
        defaults: reading.chart.values.into(),
        config: reading.config.into(),
        manifest: reading.manifest,
        hooks: reading.hooks,
        notes: reading.info.notes,
        description: reading.info.description,
        first_deployed: reading.info.first_deployed.unwrap_or_else(time::zero),
        last_deployed: reading.info.last_deployed.unwrap_or_else(time::zero),
        own: None,
        stored: Stored::default(),
    })
}

/// The JSON of a new record, or the stored JSON with those fields changed that differ from it.
pub fn write(release: &Release, stored: Option<&Value>) -> Value {
    let old = stored.and_then(|stored| Some((stored.clone(), read(stored).ok()?)));
    let (mut helm, old) = old.unwrap_or_else(|| blank(release));
    let mut put = |pointer: &str, changed: bool, value: &dyn Fn() -> Value| {
        if changed {
            set(&mut helm, pointer, value());
        }
    };
    put("/info/status", old.status != release.status, &|| release.status.as_str().into());
    put("/info/description", old.description != release.description, &|| release.description.as_str().into());
    put("/info/notes", old.notes != release.notes, &|| release.notes.as_str().into());
    put("/info/first_deployed", old.first_deployed != release.first_deployed, &|| {
        time::print(release.first_deployed).into()
    });
    put("/info/last_deployed", old.last_deployed != release.last_deployed, &|| {
        time::print(release.last_deployed).into()
    });
    put("/chart/metadata", old.chart != release.chart, &|| as_go_reads(&release.chart));
    put("/chart/values", old.defaults != release.defaults, &|| release.defaults.clone());
    put("/config", old.config != release.config, &|| release.config.clone());
    put("/manifest", old.manifest != release.manifest, &|| release.manifest.as_str().into());
    put("/hooks", old.hooks != release.hooks, &|| json!(release.hooks));
    // Helm 4 rolls back by the method that the record names. What has our part was applied by us.
    put("/apply_method", release.own.is_some(), &|| "ssa".into());
    helm
}

/// A thin record: Helm needs no templates and files to list, show, roll back or uninstall.
fn blank(release: &Release) -> (Value, Release) {
    let helm = json!({
        "name": release.name,
        "namespace": release.namespace,
        "version": release.revision,
        "info": {"first_deployed": "", "last_deployed": "", "deleted": "", "status": "unknown"},
        "chart": {"metadata": {}, "lock": null, "templates": [], "values": {}, "schema": null, "files": []},
        "apply_method": "ssa",
    });
    let old = Release {
        status: Status::Unknown,
        chart: json!({}),
        defaults: json!({}),
        config: json!({}),
        manifest: String::new(),
        hooks: vec![],
        notes: String::new(),
        description: String::new(),
        first_deployed: time::zero(),
        last_deployed: time::zero(),
        own: None,
        stored: Stored::default(),
        name: release.name.clone(),
        namespace: release.namespace.clone(),
        revision: release.revision,
    };
    (helm, old)
}

/// `appVersion: 1.16` in a Chart.yaml is text to Helm. As a number in the record it would make the whole record
/// unreadable to Helm, which then hides the release from `helm list`.
fn as_go_reads(chart: &Value) -> Value {
    match chart {
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| match key.as_str() {
                "deprecated" | "enabled" => (key.clone(), value.clone()),
                _ => (key.clone(), as_go_reads(value)),
            };
            map.iter().map(entry).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(as_go_reads).collect::<Vec<_>>().into(),
        Value::Number(number) => number.to_string().into(),
        Value::Bool(boolean) => boolean.to_string().into(),
        other => other.clone(),
    }
}

/// Sets an entry of a map, or of a map inside it. What is not a map (null, say) becomes one.
fn set(root: &mut Value, pointer: &str, value: Value) {
    let mut place = root;
    for key in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[key];
    }
    *place = value;
}
