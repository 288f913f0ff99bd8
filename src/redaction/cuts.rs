//! What stands beside a cut: the beginning of a text before it, or the end of one behind it. However many texts there are, a cut takes
//! no longer: a table of custom resources has one in each row with a long error.

use std::collections::HashSet;

use super::SHORTEST;

/// Texts by their beginnings and by their ends.
pub(super) struct Cuts {
    forwards: Beginnings,
    backwards: Beginnings,
}

impl Cuts {
    pub(super) fn of(texts: &[String]) -> Self {
        Cuts {
            forwards: Beginnings::of(texts.to_vec()),
            backwards: Beginnings::of(texts.iter().map(|text| reversed(text)).collect()),
        }
    }

    /// How much of the end of this is the beginning of a text.
    pub(super) fn begun(&self, before: &str) -> Option<usize> {
        self.forwards.at_end_of(before)
    }

    /// How much of the beginning of this is the end of a text.
    pub(super) fn ended(&self, after: &str) -> Option<usize> {
        let mut end = after.len().min(self.backwards.longest);
        while !after.is_char_boundary(end) {
            end -= 1;
        }
        self.backwards.at_end_of(&reversed(&after[..end]))
    }
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

struct Beginnings {
    /// In order.
    texts: Vec<String>,
    /// How they begin: few places of a text begin like one of them, and only there it is searched for.
    heads: HashSet<[u8; SHORTEST]>,
    longest: usize,
}

impl Beginnings {
    fn of(mut texts: Vec<String>) -> Self {
        texts.sort_unstable();
        let heads = texts.iter().filter_map(|text| text.as_bytes().first_chunk().copied()).collect();
        let longest = texts.iter().map(String::len).max().unwrap_or_default();
        Beginnings { texts, heads, longest }
    }

    /// How long the longest of them is that `text` ends with.
    fn at_end_of(&self, text: &str) -> Option<usize> {
        let mut first = text.len().saturating_sub(self.longest);
        while !text.is_char_boundary(first) {
            first += 1;
        }
        let mut ends = text[first..].char_indices().map(|(at, _)| &text[first + at..]);
        ends.find(|end| self.has(end)).map(str::len)
    }

    /// Whether one of them begins so.
    fn has(&self, beginning: &str) -> bool {
        if !beginning.as_bytes().first_chunk().is_some_and(|head| self.heads.contains(head)) {
            return false;
        }
        let at = self.texts.partition_point(|text| text.as_str() < beginning);
        self.texts.get(at).is_some_and(|text| text.starts_with(beginning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(texts: &[&str]) -> Cuts {
        Cuts::of(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_longest_part_of_a_text_beside_a_cut_is_found() {
        let cuts = cuts(&["password-one", "word-two", "größe-ist-geheim"]);
        assert_eq!(cuts.begun("it is password-o"), Some("password-o".len()));
        assert_eq!(cuts.begun("it is word-"), Some("word-".len()));
        assert_eq!(cuts.begun("it is größe"), Some("größe".len()));
        assert_eq!((cuts.begun("it is pas"), cuts.begun("it"), cuts.begun("")), (None, None, None));
        assert_eq!(cuts.ended("word-one is it"), Some("word-one".len()));
        assert_eq!(cuts.ended("öße-ist-geheim is it"), Some("öße-ist-geheim".len()));
        assert_eq!((cuts.ended("one is it"), cuts.ended("two"), cuts.ended("")), (None, None, None));
    }

    #[test]
    fn many_texts_and_many_cuts_take_no_time() {
        let texts: Vec<String> =
            (0..50_000).map(|number| format!("line {number} of a certificate of somebody")).collect();
        let cuts = Cuts::of(&texts);
        for number in 0..5000 {
            let end = format!("an error that is cut: line {number} of a cert");
            assert_eq!(cuts.begun(&end), Some(end.len() - end.find("line").unwrap()));
        }
    }
}
