//! Finding many texts in one, however many they are.
//!
//! Space stands for any space: YAML folds long lines and indents others. So both sides are looked at with one blank for each run
//! of it.

/// Texts in order, each with those that it begins with.
#[derive(Default)]
pub(super) struct Index {
    texts: Vec<String>,
    links: Vec<Option<Link>>,
}

/// The texts that a text begins with are a chain. Each link of it leads to the next one, and far down to another one, so that a long
/// chain is searched in few steps: texts may be `a`, `aa`, `aaa` and so on.
#[derive(Clone, Copy)]
struct Link {
    /// The longest of them.
    next: usize,
    far: usize,
    /// How many there are.
    depth: usize,
}

impl Index {
    pub(super) fn of(texts: impl IntoIterator<Item = String>) -> Self {
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort_unstable();
        texts.dedup();
        let mut index = Index { links: Vec::with_capacity(texts.len()), texts };
        for at in 0..index.texts.len() {
            // In this order, whatever the text begins with is the one before it, or what that one begins with.
            let before = at.checked_sub(1);
            let next = before.and_then(|before| index.first_of_chain(before, &index.texts[at]));
            index.links.push(next.map(|next| index.link_to(next)));
        }
        index
    }

    /// A link that leads as far as the two after it together, where those lead equally far.
    fn link_to(&self, next: usize) -> Link {
        let depth = |at: usize| self.links[at].map_or(0, |link| link.depth);
        let far = |at: usize| self.links[at].map_or(at, |link| link.far);
        let (one, other) = (far(next), far(far(next)));
        let is_even = depth(next) - depth(one) == depth(one) - depth(other);
        Link { next, far: if is_even { other } else { next }, depth: depth(next) + 1 }
    }

    /// The first text of a chain that `text` begins with. It begins with all that follow, too.
    fn first_of_chain(&self, mut at: usize, text: &str) -> Option<usize> {
        let begins = |at: usize| {
            #[cfg(test)]
            crate::steps::count();
            text.starts_with(&self.texts[at])
        };
        while !begins(at) {
            let Link { next, far, .. } = self.links[at]?;
            at = if begins(far) { next } else { far };
        }
        Some(at)
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    pub(super) fn has(&self, text: &str) -> bool {
        self.texts.binary_search_by(|it| it.as_str().cmp(text)).is_ok()
    }

    /// How long those are that `rest` begins with, the longest first.
    pub(super) fn at_start_of(&self, rest: &str) -> impl Iterator<Item = usize> {
        let before = self.texts.partition_point(|text| text.as_str() <= rest).checked_sub(1);
        let first = before.and_then(|before| self.first_of_chain(before, rest));
        std::iter::successors(first, |at| Some(self.links[*at]?.next)).map(|at| self.texts[at].len())
    }
}

/// How long the parts are that a text is searched in. At each place of what is shown a part is compared, and the same letter a million
/// times is at almost every place.
const PART: usize = 1024;
/// Each begins with the end of the one before: no gap is left between what is found of them, and what a cut leaves of one is long enough
/// to be found.
const COMMON: usize = 16;
/// Parts begin with whole characters, and those have up to four bytes each.
const LONGEST_PART: usize = PART + 8;

/// A long text in parts, of which none is short: a short one would be found where nothing has to be hidden. None begins with a blank, since
/// nothing is searched for where one stands.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let floor = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (mut parts, mut start) = (vec![], 0);
    while text.len() - start > LONGEST_PART {
        let end = floor(start + PART);
        parts.push(&text[start..end]);
        start = floor((end - COMMON).min(text.len() - PART));
        if text[start..].starts_with(' ') {
            start = floor(start - 1);
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A text with one blank for each run of space, and the way back.
pub(super) struct Folded {
    pub text: String,
    /// Where each byte was.
    origins: Vec<usize>,
}

impl Folded {
    pub(super) fn of(text: &str) -> Self {
        let mut folded = Folded { text: String::with_capacity(text.len()), origins: Vec::with_capacity(text.len()) };
        for (at, c) in text.char_indices() {
            if !c.is_whitespace() {
                folded.text.push(c);
                folded.origins.extend(at..at + c.len_utf8());
            } else if !folded.text.ends_with(' ') {
                folded.text.push(' ');
                folded.origins.push(at);
            }
        }
        folded
    }

    /// Where a range of it was. It is not empty, and does not end in space.
    pub(super) fn origin(&self, (start, end): (usize, usize)) -> (usize, usize) {
        (self.origins[start], self.origins[end - 1] + 1)
    }
}

/// One for those that overlap.
pub(super) fn merged(mut ranges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    ranges.sort_unstable();
    let mut all: Vec<(usize, usize)> = vec![];
    for (start, end) in ranges {
        match all.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => all.push((start, end)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::steps;

    /// How long the texts are that each place begins with.
    fn found(index: &Index, text: &str) -> Vec<Vec<usize>> {
        text.char_indices().map(|(at, _)| index.at_start_of(&text[at..]).collect()).collect()
    }

    #[test]
    fn the_steps_grow_little_with_texts_that_begin_with_each_other() {
        let nested = |number: usize| Index::of((1..=number).map(|length| "a".repeat(length)));
        steps::assert_linear("an index", |number| steps::of(|| nested(number)));
        steps::assert_n_log_n("a search", |number| {
            let (index, shown) = (nested(number), format!("{}b", "a".repeat(number)));
            steps::of(|| {
                for at in 0..number {
                    assert_eq!(index.at_start_of(&shown[at..]).next(), Some(number - at));
                }
            })
        });
    }

    #[test]
    fn the_parts_of_a_text_overlap_and_none_is_short() {
        assert_eq!(parts("short"), ["short"]);
        let blanks = [1, 2, 3].map(|number| "ä ".repeat(PART) + &"x".repeat(number));
        let others = ["x".repeat(PART), "x".repeat(LONGEST_PART + 1), "abc".repeat(5 * PART), "ä€x".repeat(3 * PART)];
        for text in blanks.into_iter().chain(others) {
            let parts = parts(&text);
            let start = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
            for pair in parts.windows(2) {
                let (one, other) = (start(pair[0]), start(pair[1]));
                assert!(one < other && other + COMMON <= one + pair[0].len(), "they overlap");
            }
            assert!(parts.iter().all(|part| (PART - 3..=LONGEST_PART).contains(&part.len())));
            assert!(parts.iter().all(|part| !part.starts_with(' ')));
            assert!(start(parts[0]) == 0 && text.ends_with(parts[parts.len() - 1]));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

        #[test]
        fn all_texts_at_all_places_are_found(
            texts in proptest::collection::btree_set("[ab]{1,8}", 0..40),
            shown in "[ab]{0,40}",
        ) {
            let index = Index::of(texts.iter().cloned());
            for (at, lengths) in found(&index, &shown).into_iter().enumerate() {
                let mut expected: Vec<usize> =
                    texts.iter().filter(|text| shown[at..].starts_with(*text)).map(String::len).collect();
                expected.sort_unstable_by(|a, b| b.cmp(a));
                prop_assert_eq!(lengths, expected);
            }
        }
    }
}
