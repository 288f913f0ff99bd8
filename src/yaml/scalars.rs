//! The four forms of a scalar: plain, single-quoted, double-quoted, and block (`|` and `>`).

use super::YamlError;
use super::cursor::{END, Mark, is_blank, is_blank_or_end, is_break, is_break_or_end};
use super::scanner::Scanner;

/// The white space between two words of a plain or quoted scalar, which folds when it has a line break.
#[derive(Default)]
struct Gap {
    blanks: String,
    first_break: String,
    more_breaks: String,
    /// Whether a line break was met, an escaped one included.
    has_break: bool,
}

impl Gap {
    fn is_empty(&self) -> bool {
        !self.has_break && self.blanks.is_empty()
    }

    /// Appends what the gap stands for: its blanks, or a single break as a space, or all breaks but the first.
    fn fold_into(self, out: &mut String) {
        if !self.has_break {
            out.push_str(&self.blanks);
        } else if !self.first_break.starts_with('\n') {
            out.push_str(&self.first_break);
            out.push_str(&self.more_breaks);
        } else if self.more_breaks.is_empty() {
            out.push(' ');
        } else {
            out.push_str(&self.more_breaks);
        }
    }
}

/// What to do with the line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

/// Plain and quoted scalars.
impl Scanner<'_> {
    pub(super) fn plain(&mut self) -> Result<String, YamlError> {
        let least_column = self.indent + 1;
        let mut out = String::new();
        let mut gap = Gap::default();
        while self.cursor.document_marker().is_none() && self.cursor.peek() != '#' {
            while !self.ends_plain() {
                if !gap.is_empty() {
                    std::mem::take(&mut gap).fold_into(&mut out);
                }
                self.cursor.take_into(&mut out);
            }
            if !is_blank(self.cursor.peek()) && !is_break(self.cursor.peek()) {
                break;
            }
            self.gap(&mut gap, Some(least_column))?;
            if !self.in_flow() && (self.cursor.mark.column as isize) < least_column {
                break;
            }
        }
        if gap.has_break {
            self.key_allowed = true;
        }
        Ok(out)
    }

    fn ends_plain(&self) -> bool {
        match self.cursor.peek() {
            ':' => is_blank_or_end(self.cursor.peek_nth(1)),
            ',' | '?' | '[' | ']' | '{' | '}' => self.in_flow(),
            c => is_blank_or_end(c),
        }
    }

    pub(super) fn quoted(&mut self) -> Result<String, YamlError> {
        let start = self.cursor.mark;
        let quote = self.cursor.peek();
        self.cursor.advance();
        let mut out = String::new();
        loop {
            if self.cursor.document_marker().is_some() || self.cursor.peek() == END {
                return Err(YamlError::syntax(start, "this quote is never closed"));
            }
            let mut gap = Gap::default();
            self.quoted_word(quote, &mut out, &mut gap)?;
            if self.cursor.peek() == quote {
                self.cursor.advance();
                return Ok(out);
            }
            self.gap(&mut gap, None)?;
            gap.fold_into(&mut out);
        }
    }

    /// Reads up to the closing quote or white space. An escaped line break opens the gap.
    fn quoted_word(&mut self, quote: char, out: &mut String, gap: &mut Gap) -> Result<(), YamlError> {
        while !is_blank_or_end(self.cursor.peek()) {
            match (quote, self.cursor.peek(), self.cursor.peek_nth(1)) {
                ('\'', '\'', '\'') => {
                    out.push('\'');
                    self.cursor.advance_by(2);
                }
                (_, c, _) if c == quote => return Ok(()),
                ('"', '\\', next) if is_break(next) => {
                    self.cursor.advance();
                    self.cursor.skip_break();
                    gap.has_break = true;
                    return Ok(());
                }
                ('"', '\\', _) => out.push(self.escape()?),
                _ => self.cursor.take_into(out),
            }
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<char, YamlError> {
        let start = self.cursor.mark;
        let c = match self.cursor.peek_nth(1) {
            '0' => '\0',
            'a' => '\x07',
            'b' => '\x08',
            't' | '\t' => '\t',
            'n' => '\n',
            'v' => '\x0b',
            'f' => '\x0c',
            'r' => '\r',
            'e' => '\x1b',
            'N' => '\u{85}',
            '_' => '\u{a0}',
            'L' => '\u{2028}',
            'P' => '\u{2029}',
            itself @ (' ' | '"' | '\'' | '\\') => itself,
            'x' => return self.code_point(start, 2),
            'u' => return self.code_point(start, 4),
            'U' => return self.code_point(start, 8),
            _ => {
                return Err(YamlError::syntax(
                    start,
                    "unknown escape; write \\\\ for a backslash, or use single quotes",
                ));
            }
        };
        self.cursor.advance_by(2);
        Ok(c)
    }

    fn code_point(&mut self, start: Mark, digits: usize) -> Result<char, YamlError> {
        self.cursor.advance_by(2);
        let mut code = 0;
        for _ in 0..digits {
            let Some(digit) = self.cursor.peek().to_digit(16) else {
                return Err(YamlError::syntax(start, "this escape has too few hexadecimal digits"));
            };
            code = code << 4 | digit;
            self.cursor.advance();
        }
        char::from_u32(code).ok_or_else(|| YamlError::syntax(start, "this escape is no Unicode character"))
    }

    /// Reads white space. With `least_column`, a tab before that column counts as broken indentation.
    fn gap(&mut self, gap: &mut Gap, least_column: Option<isize>) -> Result<(), YamlError> {
        loop {
            let c = self.cursor.peek();
            if is_break(c) {
                let breaks = if gap.has_break { &mut gap.more_breaks } else { &mut gap.first_break };
                self.cursor.take_break_into(breaks);
                gap.has_break = true;
            } else if !is_blank(c) {
                return Ok(());
            } else if !gap.has_break {
                self.cursor.take_into(&mut gap.blanks);
            } else if c == '\t' && least_column.is_some_and(|least| (self.cursor.mark.column as isize) < least) {
                return Err(self.error("a tab cannot be used for indentation; use spaces"));
            } else {
                self.cursor.advance();
            }
        }
    }
}

/// Block scalars.
impl Scanner<'_> {
    pub(super) fn block_scalar(&mut self) -> Result<String, YamlError> {
        let folded = self.cursor.peek() == '>';
        self.cursor.advance();
        let (chomping, increment) = self.block_header()?;
        let given = increment.map(|increment| self.indent.max(0) as usize + increment);

        let mut out = String::new();
        let mut line_break = String::new();
        let mut empty_lines = String::new();
        let mut was_indented = false;
        let indent = self.block_indentation(given, &mut empty_lines)?;
        while self.cursor.mark.column == indent && self.cursor.peek() != END {
            let is_indented = is_blank(self.cursor.peek());
            if folded && !was_indented && !is_indented && line_break.starts_with('\n') {
                if empty_lines.is_empty() {
                    out.push(' ');
                }
                line_break.clear();
            }
            out.push_str(&std::mem::take(&mut line_break));
            out.push_str(&std::mem::take(&mut empty_lines));
            was_indented = is_indented;
            self.cursor.take_while_into(&mut out, |c| !is_break_or_end(c));
            self.cursor.take_break_into(&mut line_break);
            self.block_indentation(Some(indent), &mut empty_lines)?;
        }
        if chomping != Chomping::Strip {
            out.push_str(&line_break);
        }
        if chomping == Chomping::Keep {
            out.push_str(&empty_lines);
        }
        Ok(out)
    }

    /// What follows `|` or `>`: chomping and indentation, in any order, and a comment.
    fn block_header(&mut self) -> Result<(Chomping, Option<usize>), YamlError> {
        let mut chomping = self.chomping();
        let mut increment = None;
        if let Some(digit) = self.cursor.peek().to_digit(10) {
            if digit == 0 {
                return Err(self.error("the indentation of a block of text cannot be 0"));
            }
            increment = Some(digit as usize);
            self.cursor.advance();
            chomping = chomping.or_else(|| self.chomping());
        }
        self.cursor.skip_blanks();
        self.cursor.skip_comment();
        if !is_break_or_end(self.cursor.peek()) {
            return Err(
                self.error("a block of text starts on the line after its '|' or '>'; put other values in quotes")
            );
        }
        self.cursor.skip_break();
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    fn chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.cursor.peek() {
            '-' => Chomping::Strip,
            '+' => Chomping::Keep,
            _ => return None,
        };
        self.cursor.advance();
        Some(chomping)
    }

    /// Steps over indentation and empty lines. Where the indentation is not known, the deepest line up to the first
    /// with text gives it.
    fn block_indentation(&mut self, known: Option<usize>, empty_lines: &mut String) -> Result<usize, YamlError> {
        let mut deepest = 0;
        loop {
            let is_indentation = |column| known.is_none_or(|indent| column < indent);
            while self.cursor.peek() == ' ' && is_indentation(self.cursor.mark.column) {
                self.cursor.advance();
            }
            deepest = deepest.max(self.cursor.mark.column);
            if self.cursor.peek() == '\t' && is_indentation(self.cursor.mark.column) {
                return Err(self.error("a tab cannot be used for indentation; use spaces"));
            }
            if !is_break(self.cursor.peek()) {
                break;
            }
            self.cursor.take_break_into(empty_lines);
        }
        let least = (self.indent + 1).max(1) as usize;
        Ok(known.unwrap_or(deepest.max(least)))
    }
}
