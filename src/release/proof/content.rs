//! What the signatures cover of a record that helm may rewrite. Pure.

use serde_json::Value;

use super::{Hash, append, hash};
use crate::aside;
use crate::release::{HookRecord, Release};

/// When helm deletes a hook, unless the chart says it.
const BEFORE_CREATION: &str = "before-hook-creation";

/// The hash of what a revision puts into the cluster. It is the same after helm read the record and wrote it again.
pub fn content_hash(release: &Release) -> Hash {
    let hooks: usize = release.hooks.iter().map(|hook| hook.manifest.len()).sum();
    aside::here(release.manifest.len() + release.config.text_len() + hooks, || content_hash_here(release))
}

fn content_hash_here(release: &Release) -> Hash {
    let mut content = vec![];
    append(&mut content, release.manifest.read().as_bytes());
    append(&mut content, canonical(&release.config.value()).as_bytes());
    for key in ["name", "version"] {
        append(&mut content, release.chart[key].as_str().unwrap_or_default().as_bytes());
    }
    // `helm test` sorts the hooks of the record that it writes.
    let mut hooks: Vec<Hash> = release.hooks.iter().map(hook_hash).collect();
    hooks.sort_unstable();
    hooks.iter().for_each(|hook| append(&mut content, hook));
    hash(&content)
}

fn hook_hash(hook: &HookRecord) -> Hash {
    let HookRecord { name, kind, path, manifest, events, weight, delete_policies, output_log_policies, .. } = hook;
    let mut content = vec![];
    [name, kind, path].into_iter().for_each(|part| append(&mut content, part.as_bytes()));
    append(&mut content, manifest.read().as_bytes());
    append(&mut content, weight.to_string().as_bytes());
    // helm writes its default into the record when it runs the hook.
    let default = [BEFORE_CREATION.to_owned()];
    let delete_policies = if delete_policies.is_empty() { &default[..] } else { delete_policies };
    for list in [events, delete_policies, output_log_policies] {
        append(&mut content, &(list.len() as u64).to_be_bytes());
        list.iter().for_each(|item| append(&mut content, item.as_bytes()));
    }
    hash(&content)
}

/// Values as Go reads them: every number is a float, and an empty map is none.
fn canonical(values: &Value) -> String {
    fn go(value: &Value) -> Value {
        match value {
            Value::Number(number) => Value::String(format!("{:?}", number.as_f64().unwrap_or_default())),
            // Text must not look like a number.
            Value::String(text) => Value::String(format!("\"{text}")),
            Value::Array(items) => items.iter().map(go).collect(),
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), go(value))).collect(),
            other => other.clone(),
        }
    }
    match values {
        Value::Null => "{}".to_owned(),
        values => go(values).to_string(),
    }
}
