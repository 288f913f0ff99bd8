//! A value that has been read but not placed yet: it may become a value, a key, or what a merge key brings in.

use serde_json::{Map, Value};

use super::cursor::Mark;
use super::resolve::Scalar;
use super::{NODE_BYTES, Problem, YamlError};

pub(super) struct Node {
    content: Content,
    aliased: bool,
    pub(super) mark: Mark,
}

#[derive(Clone)]
pub(super) enum Content {
    Scalar(Scalar),
    /// A `<<` that merges where it is a key, and is text where it is a value.
    Merge,
    Collection(Value),
}

impl Node {
    pub(super) fn new(content: Content, mark: Mark) -> Self {
        Node { content, aliased: false, mark }
    }

    pub(super) fn null(mark: Mark) -> Self {
        Node::new(Content::Scalar(Scalar::Null), mark)
    }

    pub(super) fn aliased(content: Content, mark: Mark) -> Self {
        Node { content, aliased: true, mark }
    }

    pub(super) fn into_value(self) -> Result<Value, YamlError> {
        match self.content {
            Content::Scalar(scalar) => scalar.into_value().map_err(|problem| YamlError::at(self.mark, problem)),
            Content::Merge => Ok(Value::from("<<")),
            Content::Collection(value) => Ok(value),
        }
    }

    fn into_key(self) -> Result<String, YamlError> {
        match self.content {
            Content::Scalar(scalar) => scalar.into_key(),
            Content::Merge => Ok("<<".to_owned()),
            Content::Collection(_) => Err(Problem::CollectionAsKey),
        }
        .map_err(|problem| YamlError::at(self.mark, problem))
    }

    /// Whether it merges as a key. An alias of `<<` does not.
    fn is_merge(&self) -> bool {
        matches!(self.content, Content::Merge) && !self.aliased
    }
}

impl Content {
    /// The bytes that a copy counts for, and how deep it is nested.
    pub(super) fn measure(&self) -> (usize, usize) {
        match self {
            Content::Scalar(Scalar::Text(text)) => (NODE_BYTES + text.len(), 0),
            Content::Scalar(_) | Content::Merge => (NODE_BYTES, 0),
            Content::Collection(value) => measure(value),
        }
    }
}

fn measure(value: &Value) -> (usize, usize) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (NODE_BYTES, 0),
        Value::String(text) => (NODE_BYTES + text.len(), 0),
        Value::Array(items) => items.iter().fold((NODE_BYTES, 1), |(bytes, depth), item| {
            let (item_bytes, item_depth) = measure(item);
            (bytes + item_bytes, depth.max(item_depth + 1))
        }),
        Value::Object(map) => map.iter().fold((NODE_BYTES, 1), |(bytes, depth), (key, item)| {
            let (item_bytes, item_depth) = measure(item);
            (bytes + key.len() + item_bytes, depth.max(item_depth + 1))
        }),
    }
}

/// Puts an entry into a map. The last of equal keys wins, whether it was written or merged.
pub(super) fn insert(map: &mut Map<String, Value>, key: Node, value: Node) -> Result<(), YamlError> {
    if key.is_merge() {
        return merge(map, value);
    }
    map.insert(key.into_key()?, value.into_value()?);
    Ok(())
}

fn merge(map: &mut Map<String, Value>, source: Node) -> Result<(), YamlError> {
    let bad = YamlError::at(source.mark, Problem::BadMerge);
    let sources = match source.content {
        Content::Collection(Value::Array(maps)) if !source.aliased => maps,
        Content::Collection(map) => vec![map],
        _ => return Err(bad),
    };
    // The first map of a list wins, so it comes last.
    for source in sources.into_iter().rev() {
        let Value::Object(source) = source else {
            return Err(bad);
        };
        map.extend(source);
    }
    Ok(())
}
