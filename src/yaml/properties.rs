//! What can stand before a value or a document: anchors, aliases, tags, and the `%YAML` and `%TAG` directives.

use super::YamlError;
use super::cursor::{Mark, is_blank, is_blank_or_end, is_break_or_end, is_word};
use super::scanner::Scanner;
use super::token::Kind;

impl Scanner<'_> {
    /// Reads `*alias`, `&anchor` or `!tag`.
    pub(super) fn property(&mut self) -> Result<Kind, YamlError> {
        match self.cursor.peek() {
            '*' => self.anchor_name().map(Kind::Alias),
            '&' => self.anchor_name().map(Kind::Anchor),
            _ => self.tag(),
        }
    }

    fn anchor_name(&mut self) -> Result<String, YamlError> {
        self.cursor.advance();
        let name = self.word();
        let next = self.cursor.peek();
        let ends = is_blank_or_end(next) || matches!(next, '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`');
        if name.is_empty() || !ends {
            return Err(
                self.error("an anchor or alias needs a name; put a value that starts with '&' or '*' in quotes")
            );
        }
        Ok(name)
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        self.cursor.take_while_into(&mut word, is_word);
        word
    }

    /// `!<uri>`, `!handle!suffix` or `!suffix`.
    fn tag(&mut self) -> Result<Kind, YamlError> {
        let start = self.cursor.mark;
        let (handle, suffix) = if self.cursor.peek_nth(1) == '<' {
            self.cursor.advance_by(2);
            let uri = self.tag_uri(start)?;
            if self.cursor.peek() != '>' {
                return Err(self.error("the '>' of this tag is missing"));
            }
            self.cursor.advance();
            (String::new(), uri)
        } else {
            let handle = self.tag_handle()?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.tag_uri(start)?;
                (handle, suffix)
            } else {
                let mut suffix = handle[1..].to_owned();
                self.tag_uri_into(&mut suffix)?;
                if suffix.is_empty() {
                    // A lone `!` is a tag of its own, not a handle.
                    (String::new(), "!".to_owned())
                } else {
                    ("!".to_owned(), suffix)
                }
            }
        };
        if !is_blank_or_end(self.cursor.peek()) {
            return Err(self.error("a tag has to be followed by a space"));
        }
        Ok(Kind::Tag { handle, suffix })
    }

    /// `!`, `!!` or `!word!`; also `!word`, which then is no handle but the start of a tag.
    fn tag_handle(&mut self) -> Result<String, YamlError> {
        if self.cursor.peek() != '!' {
            return Err(self.error("a tag handle starts with '!'"));
        }
        let mut handle = String::new();
        self.cursor.take_into(&mut handle);
        self.cursor.take_while_into(&mut handle, is_word);
        if self.cursor.peek() == '!' {
            self.cursor.take_into(&mut handle);
        }
        Ok(handle)
    }

    fn tag_uri(&mut self, start: Mark) -> Result<String, YamlError> {
        let mut uri = String::new();
        self.tag_uri_into(&mut uri)?;
        if uri.is_empty() {
            return Err(YamlError::syntax(start, "this tag has no name"));
        }
        Ok(uri)
    }

    fn tag_uri_into(&mut self, uri: &mut String) -> Result<(), YamlError> {
        loop {
            match self.cursor.peek() {
                '%' => uri.push(self.uri_escape()?),
                c if is_word(c) || ";/?:@&=+$,.!~*'()[]".contains(c) => self.cursor.take_into(uri),
                _ => return Ok(()),
            }
        }
    }

    /// Reads the escaped bytes of one character. No tag that means anything has others than ASCII, so those become one
    /// stand-in.
    fn uri_escape(&mut self) -> Result<char, YamlError> {
        let first = self.escaped_byte()?;
        let following = match first.leading_ones() {
            0 => return Ok(char::from(first)),
            ones @ 2..=4 => ones - 1,
            _ => return Err(self.error("this escape in a tag is no UTF-8")),
        };
        for _ in 0..following {
            if self.escaped_byte()?.leading_ones() != 1 {
                return Err(self.error("this escape in a tag is no UTF-8"));
            }
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn escaped_byte(&mut self) -> Result<u8, YamlError> {
        let digit = |n| self.cursor.peek_nth(n).to_digit(16);
        match (self.cursor.peek(), digit(1), digit(2)) {
            ('%', Some(high), Some(low)) => {
                self.cursor.advance_by(3);
                Ok((high << 4 | low) as u8)
            }
            _ => Err(self.error("a '%' in a tag needs two hexadecimal digits")),
        }
    }

    /// Reads a directive with its line break.
    pub(super) fn directive(&mut self) -> Result<Kind, YamlError> {
        self.cursor.advance();
        let name = self.word();
        if !is_blank_or_end(self.cursor.peek()) {
            return Err(self.error("unexpected character in a directive"));
        }
        self.cursor.skip_blanks();
        let kind = match name.as_str() {
            "YAML" => self.version_directive()?,
            "TAG" => self.tag_directive()?,
            _ => {
                return Err(
                    self.error("a line cannot start with '%' unless it is a %YAML or %TAG directive; put it in quotes")
                );
            }
        };
        self.cursor.skip_blanks();
        self.cursor.skip_comment();
        if !is_break_or_end(self.cursor.peek()) {
            return Err(self.error("unexpected text behind a directive"));
        }
        self.cursor.skip_break();
        Ok(kind)
    }

    fn version_directive(&mut self) -> Result<Kind, YamlError> {
        let major = self.version_number()?;
        if self.cursor.peek() != '.' {
            return Err(self.error("%YAML needs a version such as 1.1"));
        }
        self.cursor.advance();
        let minor = self.version_number()?;
        Ok(Kind::VersionDirective { major, minor })
    }

    fn version_number(&mut self) -> Result<u8, YamlError> {
        let mut digits = String::new();
        self.cursor.take_while_into(&mut digits, |c| c.is_ascii_digit());
        match digits.parse() {
            Ok(number) if digits.len() <= 2 => Ok(number),
            _ => Err(self.error("%YAML needs a version such as 1.1")),
        }
    }

    fn tag_directive(&mut self) -> Result<Kind, YamlError> {
        let handle = self.tag_handle()?;
        if !handle.ends_with('!') || !is_blank(self.cursor.peek()) {
            return Err(self.error("%TAG needs a handle such as !name! and a prefix"));
        }
        self.cursor.skip_blanks();
        let prefix = self.tag_uri(self.cursor.mark)?;
        if !is_blank_or_end(self.cursor.peek()) {
            return Err(self.error("unexpected character in the prefix of %TAG"));
        }
        Ok(Kind::TagDirective { handle, prefix })
    }
}
