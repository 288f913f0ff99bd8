//! The keys of values.yaml with the comments beside them, line by line.
//!
//! A reader of YAML keeps no comments. This one keeps nothing else: it follows block maps by their indentation, and passes over lists,
//! block scalars and whatever it does not understand. What it finds may be wrong where a file is odd, so nobody must believe in a key that
//! the real reader does not know.

/// A key and what stands beside it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub path: Vec<String>,
    /// The comment lines directly above, without `#`.
    pub above: Vec<String>,
    /// The comment behind the value.
    pub behind: String,
}

#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub keys: Vec<Line>,
    /// Every comment line, without `#`.
    pub comments: Vec<String>,
}

pub(super) fn scan(text: &str) -> Scanned {
    let mut scan = Scan::default();
    text.lines().for_each(|line| scan.line(line));
    scan.found
}

#[derive(Default)]
struct Scan {
    found: Scanned,
    /// With the columns of their `#`.
    above: Vec<(usize, String)>,
    /// The columns and names of the maps that we are in.
    stack: Vec<(usize, String)>,
    /// Deeper lines belong to a block scalar.
    scalar: Option<usize>,
    /// Lines of a list whose dashes are in this column.
    list: Option<usize>,
}

impl Scan {
    fn line(&mut self, line: &str) {
        let content = line.trim_start_matches(' ');
        let column = line.len() - content.len();
        if content.trim().is_empty() {
            self.above.clear();
            return;
        }
        if self.scalar.is_some_and(|parent| column > parent) {
            return;
        }
        self.scalar = None;
        if let Some(comment) = content.strip_prefix('#') {
            let comment = comment.trim_start_matches('#');
            let comment = comment.strip_prefix(' ').unwrap_or(comment).trim_end().to_owned();
            self.found.comments.push(comment.clone());
            self.above.push((column, comment));
            return;
        }
        let above = std::mem::take(&mut self.above);
        let is_item = content == "-" || content.starts_with("- ");
        if let Some(dashes) = self.list
            && (column > dashes || column == dashes && is_item)
        {
            self.mind_scalar(content, column);
            return;
        }
        self.list = None;
        if is_item {
            self.list = Some(column);
            self.mind_scalar(content, column);
            return;
        }
        if let Some((key, rest)) = key_of(content) {
            self.key(column, key, rest, above);
        }
    }

    fn key(&mut self, column: usize, key: String, rest: &str, mut above: Vec<(usize, String)>) {
        // What stands deeper than the key belongs to the value before it.
        let start = above.iter().rposition(|(deeper, _)| *deeper > column).map_or(0, |at| at + 1);
        let above = above.drain(start..).map(|(_, comment)| comment).collect();
        while self.stack.last().is_some_and(|(other, _)| *other >= column) {
            self.stack.pop();
        }
        self.stack.push((column, key));
        let (value, behind) = split_comment(rest);
        if is_block_scalar(value) {
            self.scalar = Some(column);
        }
        let path = self.stack.iter().map(|(_, key)| key.clone()).collect();
        self.found.keys.push(Line { path, above, behind: behind.to_owned() });
    }

    /// A block scalar inside of a list.
    fn mind_scalar(&mut self, content: &str, column: usize) {
        let (value, _) = split_comment(content);
        if value.rsplit(' ').next().is_some_and(is_block_scalar) {
            self.scalar = Some(column);
        }
    }
}

/// `key: rest`, with the key in quotes or plain.
fn key_of(content: &str) -> Option<(String, &str)> {
    let (key, rest) = match content.chars().next()? {
        quote @ ('"' | '\'') => {
            let (key, rest) = content[1..].split_once(quote)?;
            (key, rest.trim_start().strip_prefix(':')?)
        }
        '{' | '[' | '&' | '*' | '!' | '%' | '?' => return None,
        _ => {
            let end = content.find(": ").or_else(|| content.strip_suffix(':').map(str::len))?;
            (content[..end].trim_end(), &content[end + 1..])
        }
    };
    (rest.is_empty() || rest.starts_with(' ')).then(|| (key.to_owned(), rest))
}

/// A value and the comment behind it.
fn split_comment(rest: &str) -> (&str, &str) {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in rest.char_indices() {
        match (quote, letter) {
            (Some(open), close) if open == close && before != '\\' => quote = None,
            (None, '"' | '\'') if before == ' ' || before == '[' || before == '{' || before == ',' => {
                quote = Some(letter)
            }
            (None, '#') if before == ' ' => {
                let comment = rest[at..].trim_start_matches('#');
                return (rest[..at].trim(), comment.trim());
            }
            _ => {}
        }
        before = letter;
    }
    (rest.trim(), "")
}

/// `|`, `>-`, `|2+`, also behind an anchor or a tag.
fn is_block_scalar(value: &str) -> bool {
    let last = value.rsplit(' ').next().unwrap_or_default();
    let rest = last.strip_prefix(['|', '>']);
    rest.is_some_and(|rest| rest.len() <= 2 && rest.chars().all(|letter| matches!(letter, '+' | '-' | '1'..='9')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        scan(text).keys.iter().map(|line| line.path.join(".")).collect()
    }

    #[test]
    fn keys_are_found_by_their_indentation() {
        let text = "a: 1\nb:\n  c:\n    'd e': 2\n  \"f\": 3\ng: {h: 1}\n";
        assert_eq!(paths(text), ["a", "b", "b.c", "b.c.d e", "b.f", "g"]);
    }

    #[test]
    fn lists_and_block_scalars_are_passed_over() {
        let text = "a:\n- b: 1\n  c: |\n    d: 2\n- e: 3\nf:\n  - g: 1\n    h:\n      i: 2\nj: |-\n  k: 1\n\n  l: 2\nm: >2\n    n: 1\no: 1\n";
        assert_eq!(paths(text), ["a", "f", "j", "m", "o"]);
    }

    #[test]
    fn a_comment_belongs_to_the_key_below_or_beside_it() {
        let text = "# Lost.\n\n# One\n## two\na: \"x # y\" # three\nb: http://x#y\n# Inner\nc: 'it''s' #four\n";
        let found = scan(text).keys;
        assert_eq!((found[0].above.as_slice(), found[0].behind.as_str()), (&["One".into(), "two".into()][..], "three"));
        assert_eq!((found[1].above.len(), found[1].behind.as_str()), (0, ""));
        assert_eq!((found[2].above.as_slice(), found[2].behind.as_str()), (&["Inner".to_owned()][..], "four"));
    }
}
