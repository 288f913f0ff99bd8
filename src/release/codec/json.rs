//! Helm's JSON, read into a [`Release`] and written over what was there before.
//!
//! Reading keeps what we need and skips the rest as it is unpacked. Writing reads the stored text again and changes members
//! of it as text, so what others wrote stays to the letter.

mod checked;
mod keys;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::super::budget::{self, CHART_BYTES, Exceeded, HOOKS, Limits, OBJECTS, RECORD, ReadError, SHORT_TEXT_BYTES};
use super::super::text::{Json, Text};
use super::super::{HookRecord, Proof, Release, Status, Stored, time};
use checked::{Any, NonEmpty};

/// The fields that we read. `lock`, `files` and the like are skipped.
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
    #[serde(default)]
    config: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "nullable")]
    manifest: Text,
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
    notes: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chart {
    metadata: Option<Box<RawValue>>,
    templates: NonEmpty,
    values: Option<Box<RawValue>>,
}

/// Go reads null as the zero value, and writes it for a nil list.
pub fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether helm reads the JSON of a record differently. What cannot be read does not count as clear.
pub fn is_ambiguous(stored: &[u8]) -> bool {
    budget::read::<keys::Ambiguous>(stored, &RECORD).map_or(true, |ambiguous| ambiguous.0)
}

/// What the JSON says of a revision: without `own` and `stored`.
pub struct Read {
    pub release: Release,
    pub has_templates: bool,
    /// How much was read.
    pub counted: usize,
}

/// Reads a record's JSON, packed or not.
pub fn read(stored: &[u8], limits: &'static Limits) -> Result<Read, ReadError> {
    let (reading, counted): (Reading, usize) = budget::read_counted(stored, limits)?;
    check(&reading).map_err(ReadError::Exceeded)?;
    let has_templates = reading.chart.templates.0;
    let release = Release {
        name: reading.name,
        namespace: reading.namespace,
        revision: reading.version,
        status: Status::parse(&reading.info.status),
        chart: map_of(reading.chart.metadata)?,
        defaults: json_of(reading.chart.values)?,
        config: json_of(reading.config)?,
        manifest: reading.manifest,
        hooks: reading.hooks,
        notes: reading.info.notes,
        description: reading.info.description,
        first_deployed: reading.info.first_deployed.unwrap_or_else(time::zero),
        last_deployed: reading.info.last_deployed.unwrap_or_else(time::zero),
        own: None,
        claimed: None,
        proof: Proof::default(),
        stored: Stored::default(),
    };
    Ok(Read { release, has_templates, counted })
}

fn check(reading: &Reading) -> Result<(), Exceeded> {
    if reading.hooks.len() > HOOKS {
        return Err(Exceeded::Hooks);
    }
    if reading.chart.metadata.as_ref().is_some_and(|metadata| metadata.get().len() > CHART_BYTES) {
        return Err(Exceeded::Chart);
    }
    // A document has a line of its own and a separator.
    if reading.manifest.len() > 4 * OBJECTS && separators(&reading.manifest.read()) > OBJECTS {
        return Err(Exceeded::Objects);
    }
    let of_hook = |hook: &HookRecord| {
        let lists = hook.events.iter().chain(&hook.delete_policies).chain(&hook.output_log_policies);
        [&hook.name, &hook.kind, &hook.path].into_iter().chain(lists).map(String::len).sum::<usize>()
    };
    let short = reading.name.len() + reading.namespace.len() + reading.info.description.len();
    match short + reading.hooks.iter().map(of_hook).sum::<usize>() > SHORT_TEXT_BYTES {
        true => Err(Exceeded::ShortText),
        false => Ok(()),
    }
}

/// How many documents a manifest has at most, without reading it.
fn separators(manifest: &str) -> usize {
    manifest.lines().filter(|line| line.starts_with("---")).count()
}

fn map_of(raw: Option<Box<RawValue>>) -> Result<Value, ReadError> {
    let map: Option<Map<String, Value>> =
        raw.map(|raw| serde_json::from_str(raw.get())).transpose().map_err(ReadError::Json)?;
    Ok(map.unwrap_or_default().into())
}

/// A raw value is only looked at for its brackets, so it is checked here: whoever asks for the value later gets one.
fn json_of(raw: Option<Box<RawValue>>) -> Result<Json, ReadError> {
    let Some(raw) = raw else { return Ok(Json::default()) };
    serde_json::from_str::<BTreeMap<String, Any>>(raw.get()).map_err(ReadError::Json)?;
    Ok(Json::of_text(raw.get()))
}

/// A map as it was read, with the text of its members.
type Members = BTreeMap<String, Box<RawValue>>;

/// A record's JSON, on its way to be written.
pub struct Document(Members);

impl Document {
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).expect("JSON texts under string keys are JSON")
    }

    /// Takes out what helm needs neither to list, show and roll back nor to uninstall.
    pub fn thin_out(&mut self) {
        for (key, nothing) in [("templates", json!([])), ("files", json!([])), ("values", json!({}))] {
            self.set(&["chart", key], &nothing);
        }
    }

    fn set(&mut self, path: &[&str], value: &impl Serialize) {
        set(&mut self.0, path, to_raw(value));
    }
}

/// The JSON of a new record, or the stored JSON with those fields changed that differ from it.
pub fn write(release: &Release, stored: Option<&[u8]>) -> Result<Document, ReadError> {
    let (mut helm, old) = match stored {
        Some(stored) => (Document(budget::read(stored, &RECORD)?), read(stored, &RECORD)?.release),
        None => blank(release),
    };
    // What we write says the same to helm as to us.
    let is_ambiguous = stored.is_some_and(is_ambiguous);
    helm.0.retain(|key, _| !keys::shadows_record(key));
    let mut put = |path: &[&str], changed: bool, value: &dyn Fn() -> Value| {
        if changed {
            helm.set(path, &value());
        }
    };
    put(&["info", "status"], old.status != release.status, &|| release.status.as_str().into());
    put(&["info", "description"], old.description != release.description, &|| release.description.as_str().into());
    put(&["info", "notes"], old.notes != release.notes, &|| json!(release.notes));
    put(&["info", "first_deployed"], old.first_deployed != release.first_deployed, &|| {
        time::print(release.first_deployed).into()
    });
    put(&["info", "last_deployed"], old.last_deployed != release.last_deployed, &|| {
        time::print(release.last_deployed).into()
    });
    put(&["chart"], is_ambiguous, &|| blank_chart());
    put(&["chart", "metadata"], is_ambiguous || old.chart != release.chart, &|| as_go_reads(&release.chart));
    put(&["chart", "values"], is_ambiguous || old.defaults != release.defaults, &|| release.defaults.value());
    put(&["config"], old.config != release.config, &|| release.config.value());
    put(&["manifest"], old.manifest != release.manifest, &|| json!(release.manifest));
    put(&["hooks"], is_ambiguous || old.hooks != release.hooks, &|| json!(release.hooks));
    // Helm 4 rolls back by the method that the record names. What has our part was applied by us.
    put(&["apply_method"], release.own.is_some(), &|| "ssa".into());
    Ok(helm)
}

fn blank_chart() -> Value {
    json!({"metadata": {}, "lock": null, "templates": [], "values": {}, "schema": null, "files": []})
}

/// A thin record: Helm needs no templates and files to list, show, roll back or uninstall.
fn blank(release: &Release) -> (Document, Release) {
    let mut helm = Document(Members::new());
    helm.set(&["name"], &release.name);
    helm.set(&["namespace"], &release.namespace);
    helm.set(&["version"], &release.revision);
    helm.set(&["info"], &json!({"first_deployed": "", "last_deployed": "", "deleted": "", "status": "unknown"}));
    helm.set(&["chart"], &blank_chart());
    helm.set(&["apply_method"], &"ssa");
    let old = Release {
        status: Status::Unknown,
        chart: json!({}),
        defaults: Json::default(),
        config: Json::default(),
        manifest: Text::default(),
        hooks: vec![],
        notes: Text::default(),
        description: String::new(),
        first_deployed: time::zero(),
        last_deployed: time::zero(),
        own: None,
        claimed: None,
        proof: Proof::default(),
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
fn set(members: &mut Members, path: &[&str], value: Box<RawValue>) {
    match path {
        [] => {}
        [key] => {
            members.insert((*key).to_owned(), value);
        }
        [key, rest @ ..] => {
            let inner = members.get(*key).and_then(|raw| serde_json::from_str(raw.get()).ok());
            let mut inner: Members = inner.unwrap_or_default();
            set(&mut inner, rest, value);
            members.insert((*key).to_owned(), to_raw(&inner));
        }
    }
}

fn to_raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("texts, numbers and lists under string keys are JSON")
}
