//! YAML as Kubernetes reads it. (Not yet: a plain reader, soon replaced.)
use serde_json::Value;
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);
pub fn parse(text: &str) -> Result<Value, YamlError> {
    serde_yaml::from_str(text).map_err(|e| YamlError(e.to_string()))
}
