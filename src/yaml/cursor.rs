//! The place in the text that the scanner has reached, and the kinds of characters YAML knows.

use super::{Problem, YamlError};

/// Stands for the end of the text. It cannot be in the text, since [`Cursor::new`] refuses control characters.
pub(super) const END: char = '\0';

/// A place in the text, counted from zero, in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

pub(super) struct Cursor<'t> {
    rest: &'t str,
    pub(super) mark: Mark,
}

impl<'t> Cursor<'t> {
    /// Starts behind a byte order mark, if there is one.
    pub(super) fn new(text: &'t str) -> Result<Self, YamlError> {
        let mut cursor = Cursor { rest: text.strip_prefix('\u{feff}').unwrap_or(text), mark: Mark::default() };
        let start = cursor.rest;
        if let Some(found) = start.find(|c| !is_allowed(c)) {
            let forbidden = start[found..].chars().next().unwrap_or(END);
            cursor.advance_to(found);
            return Err(YamlError::at(cursor.mark, Problem::ForbiddenCharacter(forbidden)));
        }
        Ok(cursor)
    }

    fn advance_to(&mut self, offset: usize) {
        let end = self.rest.len() - offset;
        while self.rest.len() > end {
            if is_break(self.peek()) {
                self.skip_break();
            } else {
                self.advance();
            }
        }
    }

    pub(super) fn peek(&self) -> char {
        self.peek_nth(0)
    }

    pub(super) fn peek_nth(&self, n: usize) -> char {
        self.rest.chars().nth(n).unwrap_or(END)
    }

    /// Steps over one character that is no line break.
    pub(super) fn advance(&mut self) {
        let mut chars = self.rest.chars();
        if chars.next().is_some() {
            self.rest = chars.as_str();
            self.mark.index += 1;
            self.mark.column += 1;
        }
    }

    pub(super) fn advance_by(&mut self, count: usize) {
        for _ in 0..count {
            self.advance();
        }
    }

    /// Moves one character that is no line break to `out`.
    pub(super) fn take_into(&mut self, out: &mut String) {
        out.push(self.peek());
        self.advance();
    }

    pub(super) fn take_while_into(&mut self, out: &mut String, wanted: impl Fn(char) -> bool) {
        while self.peek() != END && wanted(self.peek()) {
            self.take_into(out);
        }
    }

    /// Steps over one line break, CR LF being one. Elsewhere it does nothing.
    pub(super) fn skip_break(&mut self) {
        if !is_break(self.peek()) {
            return;
        }
        if self.peek() == '\r' && self.peek_nth(1) == '\n' {
            self.advance();
        }
        self.advance();
        self.mark.column = 0;
        self.mark.line += 1;
    }

    /// Moves one line break to `out`, as a line feed unless it is a Unicode separator. Elsewhere it does nothing.
    pub(super) fn take_break_into(&mut self, out: &mut String) {
        match self.peek() {
            separator @ ('\u{2028}' | '\u{2029}') => out.push(separator),
            c if is_break(c) => out.push('\n'),
            _ => return,
        }
        self.skip_break();
    }

    pub(super) fn skip_blanks(&mut self) {
        while is_blank(self.peek()) {
            self.advance();
        }
    }

    pub(super) fn skip_comment(&mut self) {
        if self.peek() == '#' {
            while !is_break_or_end(self.peek()) {
                self.advance();
            }
        }
    }

    /// Whether a line with `---` or `...` starts here; the answer is its first character.
    pub(super) fn document_marker(&self) -> Option<char> {
        let c = self.peek();
        let found = self.mark.column == 0
            && (self.rest.starts_with("---") || self.rest.starts_with("..."))
            && is_blank_or_end(self.peek_nth(3));
        found.then_some(c)
    }
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_break_or_end(c: char) -> bool {
    is_break(c) || c == END
}

/// A blank, a line break or the end: what has to follow an indicator such as `-` or `:`.
pub(super) fn is_blank_or_end(c: char) -> bool {
    is_blank(c) || is_break_or_end(c)
}

/// The characters of anchors, tag handles and directive names.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}
