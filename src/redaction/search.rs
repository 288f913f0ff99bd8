//! Finding many texts in one, however many they are.
//!
//! Space stands for any space: YAML folds long lines and indents others. So both sides are looked at with one blank for each run
//! of it.

/// Texts in order, each with the longest other one that it begins with.
#[derive(Default)]
pub(super) struct Index {
    texts: Vec<String>,
    within: Vec<Option<usize>>,
}

impl Index {
    pub(super) fn of(texts: impl IntoIterator<Item = String>) -> Self {
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort_unstable();
        texts.dedup();
        let mut within = Vec::with_capacity(texts.len());
        for at in 0..texts.len() {
            // In this order, whatever the text begins with is the one before it, or what that one begins with.
            let mut shorter = at.checked_sub(1);
            while let Some(other) = shorter.filter(|other| !texts[at].starts_with(&texts[*other])) {
                shorter = within[other];
            }
            within.push(shorter);
        }
        Index { texts, within }
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
        let chain = std::iter::successors(before, |at| self.within[*at]);
        chain.filter(|at| rest.starts_with(&self.texts[*at])).map(|at| self.texts[at].len())
    }
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
