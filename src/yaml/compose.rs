//! Tokens to JSON: documents and nodes, with tags, anchors and aliases and the limits on them.
//!
//! Recursive, one level for each nested list or map, and so bounded by [`MAX_DEPTH`].

use std::collections::HashMap;

use serde_json::Value;

use super::cursor::Mark;
use super::node::{Content, Node};
use super::resolve::{self, Scalar};
use super::scanner::Scanner;
use super::token::{Kind, Token};
use super::{MAX_COPIED, MAX_DEPTH, Problem, YamlError, tags};

/// Where a node stands, which decides how it may be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Flow,
    Block,
    /// In a block map, where a list needs no indentation of its own.
    BlockMapping,
}

/// What an alias can copy.
struct Original {
    content: Content,
    bytes: usize,
    depth: usize,
}

pub(super) struct Composer<'t> {
    pub(super) scanner: Scanner<'t>,
    started: bool,
    tag_handles: HashMap<String, String>,
    /// The latest anchor of each name, as a place in `originals`.
    anchors: HashMap<String, usize>,
    /// What the anchors stand for; nothing as long as the node is being read.
    originals: Vec<Option<Original>>,
    depth: usize,
    copied: usize,
    nodes_left: usize,
}

/// Documents.
impl<'t> Composer<'t> {
    pub(super) fn new(text: &'t str, nodes_left: usize) -> Result<Self, YamlError> {
        Ok(Composer {
            scanner: Scanner::new(text)?,
            started: false,
            tag_handles: HashMap::new(),
            anchors: HashMap::new(),
            originals: Vec::new(),
            depth: 0,
            copied: 0,
            nodes_left,
        })
    }

    pub(super) fn nodes_left(&self) -> usize {
        self.nodes_left
    }

    /// Reads the next document, if there is one.
    pub(super) fn document(&mut self) -> Result<Option<Value>, YamlError> {
        let Some(mark) = self.next_document()? else {
            return Ok(None);
        };
        let has_directives = self.directives()?;
        let may_be_bare = !self.started && !has_directives;
        self.started = true;
        let node = if self.skip_if(Kind::DocumentStart)? {
            self.optional_node(Place::Block, |kind| kind.is_outside_documents())?
        } else if may_be_bare {
            self.node(Place::Block)?
        } else if has_directives {
            return Err(self.unexpected("'---' has to follow a directive")?);
        } else {
            return Err(YamlError::syntax(mark, "the document has ended before this; '---' would start another"));
        };
        self.skip_if(Kind::DocumentEnd)?;
        self.anchors.clear();
        self.originals.clear();
        node.into_value().map(Some)
    }

    /// Where the next document starts, if there is one.
    pub(super) fn next_document(&mut self) -> Result<Option<Mark>, YamlError> {
        while self.started && self.skip_if(Kind::DocumentEnd)? {}
        let token = self.scanner.peek()?;
        Ok((token.kind != Kind::StreamEnd).then_some(token.mark))
    }

    /// Reads the directives of a document, if it has any.
    fn directives(&mut self) -> Result<bool, YamlError> {
        let mut has_version = false;
        self.tag_handles.clear();
        while let Some(token) = self.take_if(Kind::is_directive)? {
            match token.kind {
                Kind::TagDirective { handle, prefix } => {
                    if self.tag_handles.insert(handle, prefix).is_some() {
                        let message = "a second %TAG directive for the same handle";
                        return Err(YamlError::syntax(token.mark, message));
                    }
                }
                Kind::VersionDirective { .. } if has_version => {
                    return Err(YamlError::syntax(token.mark, "a second %YAML directive"));
                }
                Kind::VersionDirective { major, minor } if (major, minor) != (1, 1) => {
                    return Err(YamlError::at(token.mark, Problem::Version { major, minor }));
                }
                _ => has_version = true,
            }
        }
        let has_directives = has_version || !self.tag_handles.is_empty();
        for (handle, prefix) in [("!", "!"), ("!!", tags::PREFIX)] {
            self.tag_handles.entry(handle.to_owned()).or_insert_with(|| prefix.to_owned());
        }
        Ok(has_directives)
    }
}

/// Nodes.
impl Composer<'_> {
    pub(super) fn node(&mut self, place: Place) -> Result<Node, YamlError> {
        let mark = self.scanner.peek()?.mark;
        let Some(left) = self.nodes_left.checked_sub(1) else {
            return Err(YamlError::at(mark, Problem::TooManyNodes));
        };
        self.nodes_left = left;
        if let Some(token) = self.take_if(|kind| matches!(kind, Kind::Alias(_)))?
            && let Kind::Alias(name) = token.kind
        {
            return self.alias(name, mark);
        }
        let (anchor, tag) = self.properties()?;
        let has_properties = anchor.is_some() || tag.is_some();
        let place_of_original = anchor.map(|name| {
            self.anchors.insert(name, self.originals.len());
            self.originals.push(None);
            self.originals.len() - 1
        });
        let content = match self.take_if(|kind| starts_content(kind, place))? {
            Some(token) => self.content(token, tag)?,
            None if has_properties => scalar(String::new(), true, tag, mark)?,
            None => return Err(self.unexpected("a value is expected here")?),
        };
        if let Some(place) = place_of_original {
            self.originals[place] = Some(self.original(&content, mark)?);
        }
        Ok(Node::new(content, mark))
    }

    /// A node that may be left out, which makes it null. It is left out where a token stands that `ends` it.
    pub(super) fn optional_node(&mut self, place: Place, ends: impl Fn(&Kind) -> bool) -> Result<Node, YamlError> {
        let token = self.scanner.peek()?;
        if ends(&token.kind) {
            return Ok(Node::null(token.mark));
        }
        self.node(place)
    }

    /// The anchor and the tag of a node.
    fn properties(&mut self) -> Result<(Option<String>, Option<String>), YamlError> {
        let mut anchor = None;
        let mut tag = None;
        while let Some(token) = self.take_if(|kind| match kind {
            Kind::Anchor(_) => anchor.is_none(),
            Kind::Tag { .. } => tag.is_none(),
            _ => false,
        })? {
            match token.kind {
                Kind::Anchor(name) => anchor = Some(name),
                Kind::Tag { handle, suffix } if handle.is_empty() => tag = Some(suffix),
                Kind::Tag { handle, suffix } => match self.tag_handles.get(&handle) {
                    Some(prefix) => tag = Some(format!("{prefix}{suffix}")),
                    None => {
                        let problem = Problem::UnknownTagHandle(handle);
                        return Err(YamlError::at(token.mark, problem));
                    }
                },
                _ => {}
            }
        }
        Ok((anchor, tag))
    }

    fn content(&mut self, first: Token, tag: Option<String>) -> Result<Content, YamlError> {
        // Tags on lists and maps mean nothing to Kubernetes.
        let mark = first.mark;
        match first.kind {
            Kind::Scalar { text, plain } => scalar(text, plain, tag, mark),
            Kind::FlowSequenceStart => self.nested(mark, Self::flow_sequence),
            Kind::FlowMappingStart => self.nested(mark, Self::flow_mapping),
            Kind::BlockSequenceStart => self.nested(mark, Self::block_sequence),
            Kind::BlockMappingStart => self.nested(mark, Self::block_mapping),
            _ => self.nested(mark, Self::indentless_sequence),
        }
    }

    pub(super) fn nested(
        &mut self,
        mark: Mark,
        read: fn(&mut Self) -> Result<Value, YamlError>,
    ) -> Result<Content, YamlError> {
        if self.depth == MAX_DEPTH {
            return Err(YamlError::at(mark, Problem::TooDeep));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(Content::Collection(value))
    }

    fn alias(&mut self, name: String, mark: Mark) -> Result<Node, YamlError> {
        let Some(&place) = self.anchors.get(&name) else {
            return Err(YamlError::at(mark, Problem::UnknownAlias(name)));
        };
        let Some(original) = &self.originals[place] else {
            return Err(YamlError::at(mark, Problem::AliasInsideItself(name)));
        };
        if self.depth + original.depth > MAX_DEPTH {
            return Err(YamlError::at(mark, Problem::TooDeep));
        }
        count_copy(&mut self.copied, original.bytes, mark)?;
        Ok(Node::aliased(original.content.clone(), mark))
    }

    /// Keeps a copy of a node for aliases to come.
    fn original(&mut self, content: &Content, mark: Mark) -> Result<Original, YamlError> {
        let (bytes, depth) = content.measure();
        count_copy(&mut self.copied, bytes, mark)?;
        Ok(Original { content: content.clone(), bytes, depth })
    }
}

/// Tokens.
impl Composer<'_> {
    fn take_if(&mut self, wanted: impl Fn(&Kind) -> bool) -> Result<Option<Token>, YamlError> {
        if wanted(&self.scanner.peek()?.kind) {
            return self.scanner.take().map(Some);
        }
        Ok(None)
    }

    pub(super) fn skip_if(&mut self, wanted: Kind) -> Result<bool, YamlError> {
        Ok(self.take_if(|kind| *kind == wanted)?.is_some())
    }

    pub(super) fn expect(&mut self, wanted: Kind, message: &'static str) -> Result<(), YamlError> {
        if self.skip_if(wanted)? {
            return Ok(());
        }
        Err(self.unexpected(message)?)
    }

    fn unexpected(&mut self, message: &'static str) -> Result<YamlError, YamlError> {
        Ok(YamlError::syntax(self.scanner.peek()?.mark, message))
    }
}

fn starts_content(kind: &Kind, place: Place) -> bool {
    match kind {
        Kind::Scalar { .. } | Kind::FlowSequenceStart | Kind::FlowMappingStart => true,
        Kind::BlockSequenceStart | Kind::BlockMappingStart => place != Place::Flow,
        Kind::BlockEntry => place == Place::BlockMapping,
        _ => false,
    }
}

fn scalar(text: String, plain: bool, tag: Option<String>, mark: Mark) -> Result<Content, YamlError> {
    let may_merge = tag.as_deref().map_or(plain, |tag| matches!(tag, "!" | tags::MERGE));
    if may_merge && text == "<<" {
        return Ok(Content::Merge);
    }
    let scalar = match tag {
        Some(tag) => tags::resolve(&tag, text).map_err(|problem| YamlError::at(mark, problem))?,
        None if plain => resolve::plain(text),
        None => Scalar::Text(text),
    };
    Ok(Content::Scalar(scalar))
}

fn count_copy(copied: &mut usize, bytes: usize, mark: Mark) -> Result<(), YamlError> {
    *copied += bytes;
    if *copied > MAX_COPIED {
        return Err(YamlError::at(mark, Problem::TooMuchCopied));
    }
    Ok(())
}
