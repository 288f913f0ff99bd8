//! One short text that stands for all inputs of a render. Equal inputs, equal digest: then nothing is rendered.
//!
//! Every part goes in with its length before it, so no two different sets of parts run together into the same bytes.

use ring::digest::{Context, SHA256};

/// Changes when the framing does, so that digests of two schemes never agree by accident.
const SCHEME: &str = "chartwright/1";
/// What a label's value holds.
const LENGTH: usize = 63;

/// What a render depends on.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// Of the chart's files.
    pub chart: &'a str,
    pub release: &'a str,
    pub namespace: &'a str,
    /// The merged values as JSON, with sorted keys.
    pub values: &'a str,
    /// The watch's settings that change what is rendered, each as one text.
    pub options: &'a [&'a str],
}

/// SHA-256 in hexadecimal, cut to fit a label.
pub fn digest(parts: &Parts) -> String {
    let mut context = Context::new(&SHA256);
    for part in [SCHEME, parts.chart, parts.release, parts.namespace, parts.values].iter().chain(parts.options) {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut text: String = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(LENGTH);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn parts<'a>(chart: &'a str, release: &'a str, options: &'a [&'a str]) -> Parts<'a> {
        Parts { chart, release, namespace: "n", values: "{}", options }
    }

    #[test]
    fn parts_do_not_run_together() {
        let all = [
            parts("ab", "c", &[]),
            parts("a", "bc", &[]),
            parts("", "abc", &[]),
            parts("ab", "c", &[""]),
            parts("ab", "c", &["x", "y"]),
            parts("ab", "c", &["xy"]),
        ];
        let digests: BTreeSet<String> = all.iter().map(digest).collect();
        assert_eq!(digests.len(), all.len());
        assert!(digests.iter().all(|digest| digest.len() == 63));
    }

    #[test]
    fn the_digest_of_a_deployed_release_outlives_an_update_of_the_operator() {
        // The same sum, made with Python's hashlib and struct.pack(">Q", …).
        let known = "9c3c2682cc21b11890189059b9faf0bb6ef2645efe19ced3ca146e0a43ea222";
        assert_eq!(digest(&parts("chart", "web", &["hooks"])), known);
    }
}
