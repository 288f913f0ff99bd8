//! Which fields a short sample sets.
//!
//! Pure. All values of a small chart, else the number of replicas, which people change first. No images: they are what a newer chart
//! should bring.

use serde_json::{Map, Value, json};

use crate::scaffold::values::ChartValues;
use crate::yaml;

/// A chart with no more values than this is small.
const FEW: usize = 5;

/// `version` is that of the definition.
pub(super) fn chosen(version: &Value, chart: &ChartValues) -> Value {
    let own = without_images(yaml::parse(&chart.text).unwrap_or_default());
    match leaves(&own) <= FEW {
        true if own.is_object() => own,
        _ => replicas(version, chart).unwrap_or_else(|| Value::Object(Map::new())),
    }
}

fn without_images(mut values: Value) -> Value {
    if let Value::Object(map) = &mut values {
        map.retain(|key, _| !key.to_ascii_lowercase().contains("image"));
        map.values_mut().for_each(|value| *value = without_images(value.take()));
    }
    values
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) if !map.is_empty() => map.values().map(leaves).sum(),
        Value::Array(items) if !items.is_empty() => items.iter().map(leaves).sum(),
        _ => 1,
    }
}

/// The value that the scale subresource sets.
fn replicas(version: &Value, chart: &ChartValues) -> Option<Value> {
    let path = version["subresources"]["scale"]["specReplicasPath"].as_str()?.strip_prefix(".spec.")?;
    let default = path.split('.').try_fold(&chart.defaults, |values, key| values.get(key));
    let count = default.filter(|count| count.is_u64()).cloned().unwrap_or_else(|| json!(1));
    Some(path.rsplit('.').fold(count, |value, key| json!({key: value})))
}
