//! Text to tokens: indentation becomes explicit block starts and ends, and `key:` becomes `Key key Value`.
//!
//! The one difficulty of YAML lies here: whether `a` is a key shows only when its `:` is met. So the scanner remembers,
//! for each flow level, the last token that may turn out to be a key, and holds it back until that is decided. A key
//! has to end on its line and within 1024 characters, which bounds how far it looks ahead.

use std::collections::VecDeque;

use super::cursor::{Cursor, END, Mark, is_blank_or_end, is_break};
use super::token::{Kind, Token};
use super::{MAX_DEPTH, Problem, YamlError};

/// A token that becomes a key if a `:` follows.
struct Candidate {
    /// Its number, counted from the start of the stream.
    token: usize,
    /// It stands where a block map needs a key, so not becoming one is an error.
    required: bool,
    mark: Mark,
}

pub(super) struct Scanner<'t> {
    pub(super) cursor: Cursor<'t>,
    tokens: VecDeque<Token>,
    /// How many tokens have been handed out.
    taken: usize,
    /// The column of the current block, -1 outside of any.
    pub(super) indent: isize,
    outer_indents: Vec<isize>,
    /// Whether a key may start at the cursor.
    pub(super) key_allowed: bool,
    /// One place for the block context and one for each open `[` or `{`; never empty.
    candidates: Vec<Option<Candidate>>,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Result<Self, YamlError> {
        Ok(Scanner {
            cursor: Cursor::new(text)?,
            tokens: VecDeque::new(),
            taken: 0,
            indent: -1,
            outer_indents: Vec::new(),
            key_allowed: true,
            candidates: vec![None],
        })
    }

    pub(super) fn peek(&mut self) -> Result<&Token, YamlError> {
        self.fill()?;
        // Never empty after `fill`: at the end of the text it brings `StreamEnd` as often as asked.
        Ok(&self.tokens[0])
    }

    pub(super) fn take(&mut self) -> Result<Token, YamlError> {
        let end = Token { kind: Kind::StreamEnd, mark: self.peek()?.mark };
        self.taken += 1;
        Ok(self.tokens.pop_front().unwrap_or(end))
    }

    fn fill(&mut self) -> Result<(), YamlError> {
        loop {
            self.drop_stale_candidates()?;
            let undecided = self.candidates.iter().flatten().any(|candidate| candidate.token == self.taken);
            if !self.tokens.is_empty() && !undecided {
                return Ok(());
            }
            self.fetch()?;
        }
    }

    fn fetch(&mut self) -> Result<(), YamlError> {
        self.skip_to_token();
        self.drop_stale_candidates()?;
        self.close_blocks(self.cursor.mark.column as isize);
        match self.cursor.document_marker() {
            Some('-') => return self.document_marker(Kind::DocumentStart),
            Some(_) => return self.document_marker(Kind::DocumentEnd),
            None => {}
        }
        let flow = self.in_flow();
        let stands_alone = is_blank_or_end(self.cursor.peek_nth(1));
        match self.cursor.peek() {
            END => self.stream_end(),
            '%' if self.cursor.mark.column == 0 => self.directive_token(),
            '[' => self.flow_start(Kind::FlowSequenceStart),
            '{' => self.flow_start(Kind::FlowMappingStart),
            ']' => self.flow_end(Kind::FlowSequenceEnd),
            '}' => self.flow_end(Kind::FlowMappingEnd),
            ',' => self.flow_entry(),
            '-' if stands_alone => self.block_entry(),
            '?' if flow || stands_alone => self.key(),
            ':' if flow || stands_alone => self.value(),
            '*' | '&' | '!' => self.property_token(),
            '|' | '>' if !flow => self.block_scalar_token(),
            '\'' | '"' => self.flow_scalar_token(Self::quoted, false),
            '\t' => Err(self.error("a tab cannot be used for indentation; use spaces")),
            '%' | '@' | '`' | '|' | '>' => {
                Err(self.error("a value cannot start with this character; put it in quotes"))
            }
            _ => self.flow_scalar_token(Self::plain, true),
        }
    }

    fn skip_to_token(&mut self) {
        loop {
            // Where a key may start, a tab would be indentation.
            let tabs_allowed = self.in_flow() || !self.key_allowed;
            while self.cursor.peek() == ' ' || tabs_allowed && self.cursor.peek() == '\t' {
                self.cursor.advance();
            }
            self.cursor.skip_comment();
            if !is_break(self.cursor.peek()) {
                return;
            }
            self.cursor.skip_break();
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    pub(super) fn in_flow(&self) -> bool {
        self.candidates.len() > 1
    }

    fn push(&mut self, kind: Kind, mark: Mark) {
        self.tokens.push_back(Token { kind, mark });
    }

    /// Pushes the token of an indicator and steps over it.
    fn indicator(&mut self, kind: Kind, width: usize) -> Result<(), YamlError> {
        self.push(kind, self.cursor.mark);
        self.cursor.advance_by(width);
        Ok(())
    }

    pub(super) fn error(&self, message: &'static str) -> YamlError {
        YamlError::syntax(self.cursor.mark, message)
    }
}

/// Key candidates and indentation.
impl Scanner<'_> {
    fn drop_stale_candidates(&mut self) -> Result<(), YamlError> {
        let here = self.cursor.mark;
        for slot in &mut self.candidates {
            if let Some(candidate) = slot
                && (candidate.mark.line < here.line || candidate.mark.index + 1024 < here.index)
            {
                candidate.give_up()?;
                *slot = None;
            }
        }
        Ok(())
    }

    fn save_candidate(&mut self) -> Result<(), YamlError> {
        if !self.key_allowed {
            return Ok(());
        }
        self.drop_candidate()?;
        let candidate = Candidate {
            token: self.taken + self.tokens.len(),
            required: !self.in_flow() && self.indent == self.cursor.mark.column as isize,
            mark: self.cursor.mark,
        };
        if let Some(slot) = self.candidates.last_mut() {
            *slot = Some(candidate);
        }
        Ok(())
    }

    fn drop_candidate(&mut self) -> Result<(), YamlError> {
        match self.take_candidate() {
            Some(candidate) => candidate.give_up(),
            None => Ok(()),
        }
    }

    fn take_candidate(&mut self) -> Option<Candidate> {
        self.candidates.last_mut().and_then(Option::take)
    }

    /// Opens a block if the column lies deeper than the current one. Its token goes before the token with the number
    /// `before`, or to the end.
    fn open_block(&mut self, kind: Kind, mark: Mark, before: Option<usize>) {
        let column = mark.column as isize;
        if self.in_flow() || self.indent >= column {
            return;
        }
        self.outer_indents.push(self.indent);
        self.indent = column;
        let place = before.map_or(self.tokens.len(), |number| number - self.taken);
        self.tokens.insert(place, Token { kind, mark });
    }

    fn close_blocks(&mut self, column: isize) {
        if self.in_flow() {
            return;
        }
        while self.indent > column {
            self.push(Kind::BlockEnd, self.cursor.mark);
            self.indent = self.outer_indents.pop().unwrap_or(-1);
        }
    }
}

impl Candidate {
    fn give_up(&self) -> Result<(), YamlError> {
        if self.required {
            return Err(YamlError::syntax(self.mark, "a key is expected here, but no ':' follows on this line"));
        }
        Ok(())
    }
}

/// One function for each kind of token.
impl Scanner<'_> {
    /// Leaves all blocks: what comes next cannot be part of one.
    fn leave_blocks(&mut self) -> Result<(), YamlError> {
        self.close_blocks(-1);
        self.drop_candidate()?;
        self.key_allowed = false;
        Ok(())
    }

    fn stream_end(&mut self) -> Result<(), YamlError> {
        self.leave_blocks()?;
        // Brackets that are still open may hold candidates; no ':' will come for them.
        self.candidates.fill_with(|| None);
        self.push(Kind::StreamEnd, self.cursor.mark);
        Ok(())
    }

    fn directive_token(&mut self) -> Result<(), YamlError> {
        self.leave_blocks()?;
        let mark = self.cursor.mark;
        let kind = self.directive()?;
        self.push(kind, mark);
        Ok(())
    }

    fn document_marker(&mut self, kind: Kind) -> Result<(), YamlError> {
        self.leave_blocks()?;
        self.indicator(kind, 3)
    }

    fn flow_start(&mut self, kind: Kind) -> Result<(), YamlError> {
        self.save_candidate()?;
        if self.candidates.len() > MAX_DEPTH {
            return Err(YamlError::at(self.cursor.mark, Problem::TooDeep));
        }
        self.candidates.push(None);
        self.key_allowed = true;
        self.indicator(kind, 1)
    }

    fn flow_end(&mut self, kind: Kind) -> Result<(), YamlError> {
        self.drop_candidate()?;
        if self.in_flow() {
            self.candidates.pop();
        }
        self.key_allowed = false;
        self.indicator(kind, 1)
    }

    fn flow_entry(&mut self) -> Result<(), YamlError> {
        self.drop_candidate()?;
        self.key_allowed = true;
        self.indicator(Kind::FlowEntry, 1)
    }

    fn block_entry(&mut self) -> Result<(), YamlError> {
        if !self.in_flow() {
            if !self.key_allowed {
                return Err(self.error("a list entry cannot start here"));
            }
            self.open_block(Kind::BlockSequenceStart, self.cursor.mark, None);
        }
        self.drop_candidate()?;
        self.key_allowed = true;
        self.indicator(Kind::BlockEntry, 1)
    }

    fn key(&mut self) -> Result<(), YamlError> {
        if !self.in_flow() {
            if !self.key_allowed {
                return Err(self.error("a key cannot start here"));
            }
            self.open_block(Kind::BlockMappingStart, self.cursor.mark, None);
        }
        self.drop_candidate()?;
        self.key_allowed = !self.in_flow();
        self.indicator(Kind::Key, 1)
    }

    fn value(&mut self) -> Result<(), YamlError> {
        if let Some(key) = self.take_candidate() {
            let place = key.token - self.taken;
            let token = Token { kind: Kind::Key, mark: key.mark };
            self.tokens.insert(place, token);
            self.open_block(Kind::BlockMappingStart, key.mark, Some(key.token));
            self.key_allowed = false;
        } else {
            if !self.in_flow() {
                if !self.key_allowed {
                    return Err(self.error("a ':' is not possible here; put a value that contains ': ' in quotes"));
                }
                self.open_block(Kind::BlockMappingStart, self.cursor.mark, None);
            }
            self.key_allowed = !self.in_flow();
        }
        self.indicator(Kind::Value, 1)
    }

    fn property_token(&mut self) -> Result<(), YamlError> {
        self.save_candidate()?;
        self.key_allowed = false;
        let mark = self.cursor.mark;
        let kind = self.property()?;
        self.push(kind, mark);
        Ok(())
    }

    fn block_scalar_token(&mut self) -> Result<(), YamlError> {
        self.drop_candidate()?;
        self.key_allowed = true;
        let mark = self.cursor.mark;
        let text = self.block_scalar()?;
        self.push(Kind::Scalar { text, plain: false }, mark);
        Ok(())
    }

    fn flow_scalar_token(
        &mut self,
        scan: fn(&mut Self) -> Result<String, YamlError>,
        plain: bool,
    ) -> Result<(), YamlError> {
        self.save_candidate()?;
        self.key_allowed = false;
        let mark = self.cursor.mark;
        let text = scan(self)?;
        self.push(Kind::Scalar { text, plain }, mark);
        Ok(())
    }
}
