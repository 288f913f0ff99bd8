//! The grammar of lists and maps, in blocks and in brackets.

use serde_json::{Map, Value};

use super::YamlError;
use super::compose::{Composer, Place};
use super::node::{Node, insert};
use super::token::Kind;

/// Lists and maps; each function starts behind the token that opens it.
impl Composer<'_> {
    pub(super) fn block_sequence(&mut self) -> Result<Value, YamlError> {
        let ends = |kind: &Kind| matches!(kind, Kind::BlockEntry | Kind::BlockEnd);
        let mut items = Vec::new();
        while self.skip_if(Kind::BlockEntry)? {
            items.push(self.optional_node(Place::Block, ends)?.into_value()?);
        }
        self.expect(
            Kind::BlockEnd,
            "this fits neither the list before it nor anything around it; check the indentation",
        )?;
        Ok(Value::Array(items))
    }

    pub(super) fn indentless_sequence(&mut self) -> Result<Value, YamlError> {
        let ends = |kind: &Kind| *kind == Kind::BlockEntry || kind.ends_block_entry();
        let mut items = Vec::new();
        loop {
            items.push(self.optional_node(Place::Block, ends)?.into_value()?);
            if !self.skip_if(Kind::BlockEntry)? {
                return Ok(Value::Array(items));
            }
        }
    }

    pub(super) fn block_mapping(&mut self) -> Result<Value, YamlError> {
        let mut map = Map::new();
        while self.skip_if(Kind::Key)? {
            let key = self.optional_node(Place::BlockMapping, Kind::ends_block_entry)?;
            let value = if self.skip_if(Kind::Value)? {
                self.optional_node(Place::BlockMapping, Kind::ends_block_entry)?
            } else {
                Node::null(key.mark)
            };
            insert(&mut map, key, value)?;
        }
        self.expect(
            Kind::BlockEnd,
            "this fits neither the map before it nor anything around it; check the indentation",
        )?;
        Ok(Value::Object(map))
    }

    pub(super) fn flow_sequence(&mut self) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        while !self.skip_if(Kind::FlowSequenceEnd)? {
            if !items.is_empty() {
                self.expect(Kind::FlowEntry, "a ',' or ']' is expected here")?;
                if self.skip_if(Kind::FlowSequenceEnd)? {
                    break;
                }
            }
            let mark = self.scanner.peek()?.mark;
            items.push(if self.skip_if(Kind::Key)? {
                let pair = self.nested(mark, Self::flow_pair)?;
                Node::new(pair, mark).into_value()?
            } else {
                self.node(Place::Flow)?.into_value()?
            });
        }
        Ok(Value::Array(items))
    }

    /// `[key: value]`, a list with a map of one entry.
    fn flow_pair(&mut self) -> Result<Value, YamlError> {
        let mut map = Map::new();
        self.flow_entry(&mut map)?;
        Ok(Value::Object(map))
    }

    pub(super) fn flow_mapping(&mut self) -> Result<Value, YamlError> {
        let mut map = Map::new();
        let mut is_first = true;
        while !self.skip_if(Kind::FlowMappingEnd)? {
            if !is_first {
                self.expect(Kind::FlowEntry, "a ',' or '}' is expected here")?;
                if self.skip_if(Kind::FlowMappingEnd)? {
                    break;
                }
            }
            is_first = false;
            if self.skip_if(Kind::Key)? {
                self.flow_entry(&mut map)?;
            } else {
                let key = self.node(Place::Flow)?;
                let value = Node::null(key.mark);
                insert(&mut map, key, value)?;
            }
        }
        Ok(Value::Object(map))
    }

    fn flow_entry(&mut self, map: &mut Map<String, Value>) -> Result<(), YamlError> {
        let ends_key = |kind: &Kind| *kind == Kind::Value || kind.ends_flow_entry();
        let key = self.optional_node(Place::Flow, ends_key)?;
        let value = if self.skip_if(Kind::Value)? {
            self.optional_node(Place::Flow, Kind::ends_flow_entry)?
        } else {
            Node::null(key.mark)
        };
        insert(map, key, value)
    }
}
