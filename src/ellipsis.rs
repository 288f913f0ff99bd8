//! Long text, cut in the middle: the start says what it is about, and the cause is often last. Pure.

/// Stands where text was cut. The redactor looks for halves of secret values beside it.
pub const ELLIPSIS: char = '…';

/// The start and the end of a text, at most `limit` bytes in all.
pub fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let kept = limit.saturating_sub(ELLIPSIS.len_utf8());
    let mut head = kept / 2;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - (kept - kept / 2);
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}{ELLIPSIS}{}", text[..head].trim_end(), text[tail..].trim_start())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_ends_of_a_long_text_are_kept() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("cannot pull: a b c d e f g: network is unreachable", 30), "cannot pull:…is unreachable");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn a_cut_text_fits_and_consists_of_its_two_ends(text in "[aö… ]{0,80}", limit in 3..60_usize) {
            let cut = shortened(&text, limit);
            prop_assert!(cut.len() <= limit, "{cut:?}");
            if text.len() > limit {
                let (at, _) = cut.match_indices(ELLIPSIS).find(|(at, mark)| {
                    text.starts_with(&cut[..*at]) && text.ends_with(&cut[at + mark.len()..])
                }).expect("a cut between both ends");
                prop_assert!(at <= limit / 2);
            }
        }
    }
}
