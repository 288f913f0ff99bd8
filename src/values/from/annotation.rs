//! The short form of references, as the annotation has it: `secret/db, configmap/common:prod.yaml, secret/extra?`.
//!
//! An item is `kind/name`, then `:key` if it is another than `values.yaml`, then `@path` if the text is one value, then `?` if the
//! object need not be there. What cannot be read is refused as a whole: to leave out one of several would deploy something else
//! than what was asked for.

use super::{DEFAULT_KEY, MAX_REFERENCES, Reference, SourceKind, TargetPath, is_key};
use crate::release::name;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AnnotationError {
    #[error(
        "`{item}` cannot be read, since {why}: write a list such as `secret/db, configmap/common:prod.yaml, secret/token:password@auth.password, secret/extra?`"
    )]
    Item { item: String, why: String },
    #[error(
        "it has {items} items, but the values of a custom resource come from at most {MAX_REFERENCES}, `valuesFrom` in watches.yaml included: put several texts into one object"
    )]
    TooMany { items: usize },
}

/// An empty text refers to nothing. There may be `room` items at most.
pub fn parse(text: &str, room: usize) -> Result<Vec<Reference>, AnnotationError> {
    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    let items = text.split(',').count();
    if items > room {
        return Err(AnnotationError::TooMany { items });
    }
    text.split(',').map(str::trim).map(|item| one(item).map_err(|why| refused(item, why))).collect()
}

fn refused(item: &str, why: String) -> AnnotationError {
    AnnotationError::Item { item: item.chars().take(200).collect(), why }
}

fn one(item: &str) -> Result<Reference, String> {
    let (item, optional) = item.strip_suffix('?').map_or((item, false), |item| (item, true));
    let (kind, rest) = item.split_once('/').ok_or("there is no kind and `/` before a name")?;
    let kind = match kind {
        "secret" | "Secret" => SourceKind::Secret,
        "configmap" | "ConfigMap" => SourceKind::ConfigMap,
        _ => return Err(format!("{kind:?} is neither `secret` nor `configmap`")),
    };
    // Neither a name nor a key has an `@` in it.
    let (rest, path) = rest.split_once('@').map_or((rest, None), |(rest, path)| (rest, Some(path)));
    let (name, key) = rest.split_once(':').unwrap_or((rest, DEFAULT_KEY));
    if name.contains('/') {
        return Err("it names a namespace, but objects are in the custom resource's own".to_owned());
    }
    if !name::is_object_name(name) {
        return Err(format!("{name:?} is not the name of an object"));
    }
    if !is_key(key) {
        return Err(format!("{key:?} is not a key"));
    }
    let path = path.map(TargetPath::parse).transpose().map_err(|error| error.to_string())?;
    Ok(Reference { kind, name: name.to_owned(), key: key.to_owned(), path, optional })
}
