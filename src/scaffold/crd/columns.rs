//! What `kubectl get` shows of a custom resource.

use serde_json::Value;
use serde_yaml::{Mapping, Value as Yaml};

use super::schema::Schema;

struct Column<'c> {
    name: &'c str,
    kind: &'c str,
    description: &'c str,
    path: &'c str,
    /// Only with `-o wide`.
    is_wide: bool,
}

const READY: Column<'_> = Column {
    name: "Ready",
    kind: "string",
    description: "Whether everything that the chart made is healthy",
    path: r#".status.conditions[?(@.type=="Ready")].status"#,
    is_wide: false,
};
const REASON: Column<'_> = Column {
    name: "Reason",
    kind: "string",
    description: "Why it is ready or not",
    path: r#".status.conditions[?(@.type=="Ready")].reason"#,
    is_wide: false,
};
const REPLICAS: Column<'_> = Column {
    name: "Replicas",
    kind: "integer",
    description: "How many pods there are",
    path: ".status.replicas",
    is_wide: false,
};
const REVISION: Column<'_> = Column {
    name: "Revision",
    kind: "integer",
    description: "The release's revision, as in helm history",
    path: ".status.deployedRelease.revision",
    is_wide: false,
};
const AGE: Column<'_> =
    Column { name: "Age", kind: "date", description: "", path: ".metadata.creationTimestamp", is_wide: false };

pub(super) fn columns(spec: &Schema, defaults: &Value, can_scale: bool) -> Yaml {
    let image = image_path(spec, defaults);
    let mut columns = vec![READY, REASON];
    if can_scale {
        columns.push(REPLICAS);
    }
    if let Some(path) = image {
        let description = "The image, where the spec names one";
        columns.push(Column { name: "Image", kind: "string", description, path, is_wide: true });
    }
    columns.extend([REVISION, AGE]);
    Yaml::Sequence(columns.iter().map(Column::yaml).collect())
}

/// Only what is in the spec can be shown: the chart's defaults are not.
fn image_path(spec: &Schema, defaults: &Value) -> Option<&'static str> {
    let image = spec.property("image")?;
    match () {
        () if image.property("tag").is_some() => Some(".spec.image.tag"),
        () if image.property("repository").is_some() => Some(".spec.image.repository"),
        () if defaults["image"].is_string() => Some(".spec.image"),
        () => None,
    }
}

impl Column<'_> {
    fn yaml(&self) -> Yaml {
        let mut map = Mapping::new();
        for (key, text) in
            [("name", self.name), ("type", self.kind), ("description", self.description), ("jsonPath", self.path)]
        {
            if !text.is_empty() {
                map.insert(key.into(), text.into());
            }
        }
        if self.is_wide {
            map.insert("priority".into(), 1.into());
        }
        Yaml::Mapping(map)
    }
}
