//! The Dockerfile of a project: another base image.
//!
//! Pure. Only the name of the image is replaced; flags, the name of the stage and every other line stay.

use super::Edited;

/// What a person may have added that needs more than the base image has. It has a program and helm, and no shell.
const NEEDS_A_SHELL: &str = "RUN";
const STARTS: [&str; 2] = ["ENTRYPOINT", "CMD"];
const DIGEST: &str = "@sha256:";

/// `file` is for the notes. In a project that has moved already, another base image is somebody's choice, and no longer named.
pub fn edit(file: &str, text: &str, image: &str, has_moved: bool) -> Edited {
    let mut edited = Edited::default();
    let (mut stages, mut bases): (Vec<String>, Vec<String>) = (vec![], vec![]);
    let mut defaults: Vec<(String, String)> = vec![];
    let mut is_ours = false;
    for line in text.split_inclusive('\n') {
        let words: Vec<&str> = line.split_whitespace().collect();
        let instruction = words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        let mut line = line.to_owned();
        match instruction.as_str() {
            "FROM" => {
                let (base, stage) = stage(&words);
                is_ours = is_helm_operator(base) && !stages.iter().any(|known| known == base);
                if is_ours {
                    edited.replace(file, &mut line, base, image);
                }
                bases.push(base.to_owned());
                stages.extend(stage.map(str::to_owned));
            }
            // A default for `FROM ${…}`.
            "ARG" if bases.is_empty() => {
                let argument = words.get(1).and_then(|argument| argument.split_once('=')).unwrap_or_default();
                let (name, base) = (argument.0, argument.1.trim_matches('"'));
                if is_helm_operator(base) {
                    edited.replace(file, &mut line, base, image);
                }
                defaults.push((name.to_owned(), base.to_owned()));
            }
            NEEDS_A_SHELL if is_ours => edited.notes.push(format!(
                "{file} runs a command (`{}`), and the new base image has no shell; do it in a stage of its own, and COPY what comes of it",
                words.join(" ")
            )),
            _ if is_ours && STARTS.contains(&instruction.as_str()) => edited.notes.push(format!(
                "{file} starts something itself (`{}`); the new base image starts /usr/local/bin/chartwright run",
                words.join(" ")
            )),
            _ => {}
        }
        edited.text.push_str(&line);
    }
    let meant = |base: &str| {
        let name = base.trim_start_matches(['$', '{']).trim_end_matches('}');
        let default = defaults.iter().find(|(known, _)| base.starts_with('$') && known == name);
        default.map_or_else(|| base.to_owned(), |(_, value)| value.clone())
    };
    if !has_moved && edited.why.is_empty() && !bases.iter().any(|base| is_settled(&meant(base), image)) {
        let bases = if bases.is_empty() { "nothing".to_owned() } else { bases.join(", ") };
        edited.notes.push(format!(
            "{file} builds on {bases}, not on helm-operator, and is left as it is; let it build on {image}"
        ));
    }
    edited
}

impl Edited {
    fn replace(&mut self, file: &str, line: &mut String, base: &str, image: &str) {
        self.why.push(format!("{image} takes the place of {base}"));
        if base.contains(DIGEST) && !image.contains(DIGEST) {
            self.notes.push(format!(
                "{file} named its base image by digest, and now names {image} by a tag, which may come to mean another image; where it comes from a registry, add its digest"
            ));
        }
        *line = line.replacen(base, image, 1);
    }
}

/// The image and the name of `FROM [--flag] image [AS name]`.
fn stage<'a>(words: &[&'a str]) -> (&'a str, Option<&'a str>) {
    let mut words = words.iter().skip(1).skip_while(|word| word.starts_with("--"));
    let base = words.next().copied().unwrap_or_default();
    (base, words.nth(1).copied())
}

/// operator-sdk's image, from wherever: `quay.io/operator-framework/helm-operator:v1.42.0@sha256:…`, or Red Hat's `ose-helm-rhel9-operator`.
fn is_helm_operator(image: &str) -> bool {
    let name = name_of(image);
    name.ends_with("helm-operator") || (name.starts_with("ose-helm-") && name.ends_with("-operator"))
}

/// Without registry, tag and digest.
fn name_of(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

/// Whether a base is what it shall be, perhaps in another version or from another place.
fn is_settled(base: &str, image: &str) -> bool {
    base == image || name_of(base) == "chartwright"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str) -> Edited {
        edit("Dockerfile", text, "chartwright:1.2.3", false)
    }

    #[test]
    fn only_the_image_is_replaced() {
        for (from, to) in [
            ("FROM quay.io/operator-framework/helm-operator:v1.0.0\n", "FROM chartwright:1.2.3\n"),
            ("from quay.io/operator-framework/helm-operator\r\n", "from chartwright:1.2.3\r\n"),
            (
                "FROM --platform=$TARGETPLATFORM  mirror:5000/x/helm-operator:v1 AS final\n",
                "FROM --platform=$TARGETPLATFORM  chartwright:1.2.3 AS final\n",
            ),
            ("FROM registry.redhat.io/openshift4/ose-helm-rhel9-operator:v4.18", "FROM chartwright:1.2.3"),
            (
                "ARG BASE=\"quay.io/operator-framework/helm-operator:v1\"\nFROM ${BASE}\n",
                "ARG BASE=\"chartwright:1.2.3\"\nFROM ${BASE}\n",
            ),
        ] {
            let around =
                |line: &str| format!("# Ours.\n{line}\nENV HOME=/opt/helm\nCOPY helm-charts  ${{HOME}}/helm-charts\n");
            let edited = edited(&around(from));
            assert_eq!(edited.text, around(to));
            assert_eq!((edited.why.len(), edited.notes.len()), (1, 0), "{from}");
        }
    }

    #[test]
    fn a_digest_that_goes_is_told() {
        for before in ["FROM x/helm-operator:v1@sha256:ab AS final\n", "ARG B=x/helm-operator@sha256:ab\nFROM $B\n"] {
            let edited = edited(before);
            assert!(edited.text.contains("chartwright:1.2.3") && !edited.text.contains("sha256"), "{edited:?}");
            assert!(edited.notes.len() == 1 && edited.notes[0].contains("add its digest"), "{edited:?}");
            let pinned = edit("Dockerfile", before, "r/chartwright:1@sha256:cd", false);
            assert!(pinned.text.contains("r/chartwright:1@sha256:cd") && pinned.notes.is_empty(), "{pinned:?}");
        }
    }

    #[test]
    fn what_builds_on_something_else_is_left_and_named() {
        let text = "FROM golang:1.26 AS helm-operator\nRUN go build\nFROM helm-operator\nCMD [\"/manager\"]\n";
        let edited = edited(text);
        assert_eq!((edited.text.as_str(), edited.why.len()), (text, 0));
        let variable = super::edit("Dockerfile", "ARG B=ours:1\nFROM ${B}\n", "chartwright:1.2.3", false);
        assert!(variable.notes[0].starts_with("Dockerfile builds on ${B}, not on helm-operator"), "{variable:?}");
        assert!(
            edited.notes[0].starts_with("Dockerfile builds on golang:1.26, helm-operator, not on helm-operator"),
            "{edited:?}"
        );
    }

    #[test]
    fn what_needs_more_than_the_new_image_has_is_told() {
        let edited =
            edited("FROM a AS tools\nRUN ok\nFROM x/helm-operator:v1\nRUN microdnf install jq\nENTRYPOINT [\"/x\"]\n");
        assert_eq!(edited.notes.len(), 2, "{edited:?}");
        assert!(
            edited.notes[0].contains("`RUN microdnf install jq`")
                && edited.notes[1].contains("/usr/local/bin/chartwright run")
        );
    }

    #[test]
    fn a_second_time_nothing_is_left_to_do() {
        for text in ["FROM chartwright:1.2.3\n", "FROM registry/chartwright:0.9\n", "ARG B=chartwright:1\nFROM ${B}\n"]
        {
            assert_eq!(edited(text), Edited { text: text.into(), ..Edited::default() });
        }
        let chosen = "FROM r.example.com/cw:1\n";
        let nothing = Edited { text: chosen.into(), ..Edited::default() };
        assert_eq!(edit("Dockerfile", chosen, "chartwright:1.2.3", true), nothing, "as with --image before");
    }
}
