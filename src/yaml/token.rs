//! What the scanner hands to the grammar.

use super::cursor::Mark;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { text: String, plain: bool },
}

impl Kind {
    pub(super) fn is_directive(&self) -> bool {
        matches!(self, Kind::VersionDirective { .. } | Kind::TagDirective { .. })
    }

    pub(super) fn is_outside_documents(&self) -> bool {
        matches!(self, Kind::DocumentStart | Kind::DocumentEnd | Kind::StreamEnd) || self.is_directive()
    }

    /// Whether a key or value of a block map has ended where this stands.
    pub(super) fn ends_block_entry(&self) -> bool {
        matches!(self, Kind::Key | Kind::Value | Kind::BlockEnd)
    }

    /// Whether an entry in brackets has ended where this stands.
    pub(super) fn ends_flow_entry(&self) -> bool {
        matches!(self, Kind::FlowEntry | Kind::FlowSequenceEnd | Kind::FlowMappingEnd)
    }
}

#[derive(Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) mark: Mark,
}
