//! "Did you mean …?": the known name that is nearest to a mistyped one.

/// The nearest known name, if it is near enough to be meant.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let distances = known.into_iter().map(|name| (distance(&lower, &name.to_lowercase()), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    // A third of the name wrong is still a typo; more is another word.
    (distance <= name.len().div_ceil(3)).then_some(name)
}

/// How many characters have to be inserted, dropped or replaced (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted() {
        for (a, b, expected) in [("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3), ("é", "e", 1)] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_typo_has_a_suggestion_and_another_word_has_none() {
        let known = ["selector", "reconcilePeriod", "overrideValues"];
        assert_eq!(nearest("selectr", known), Some("selector"));
        assert_eq!(nearest("override_values", known), Some("overrideValues"));
        assert_eq!(nearest("ReconcilePeriods", known), Some("reconcilePeriod"));
        assert_eq!(nearest("chart", known), None);
    }
}
