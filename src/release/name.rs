//! What the release of a custom resource is called.
//!
//! Pure. A watch may give a template; without one a release has the name of its custom resource. A name that is longer than
//! Helm allows is cut and gets a hash of the whole, so that long names stay apart.
//!
//! It refuses a template that does not name the custom resource, since all of them would share one release, and text that
//! cannot be in a release's name. It knows three fields and no functions: a name must be the same for ever, and what can
//! change (a label, a value of the spec) would leave the old release behind.

use ring::digest::{SHA256, digest};

/// The most that Helm allows.
pub const LONGEST: usize = 53;
/// Of the hash, in hexadecimal digits.
const HASH: usize = 8;

const NAME: &str = ".metadata.name";
const NAMESPACE: &str = ".metadata.namespace";
const KIND: &str = ".kind";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NameError {
    #[error("`{{{{{0}}}}}` is not known: write {{{{ {NAME} }}}}, {{{{ {NAMESPACE} }}}} or {{{{ {KIND} }}}}")]
    Unknown(String),
    #[error("`{0}` has no `}}}}` behind it: write for example {{{{ {NAME} }}}}")]
    Open(String),
    #[error("`{0}` is without {{{{ {NAME} }}}}, so that all custom resources would share one release: add it")]
    NoName(String),
    #[error("{found:?} cannot be in a name: use small letters, digits, `-` and `.` beside {{{{ {NAME} }}}}")]
    Character { found: char },
    #[error("`{0}` makes no name of a release: a letter or a digit comes first, last, and on both sides of each `.`")]
    Shape(String),
    #[error("`{0}` makes no name of an object: a letter or a digit comes first, last, and on both sides of each `.`")]
    ObjectShape(String),
}

/// How releases are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Name,
    Namespace,
    /// In small letters, as everything in a release's name.
    Kind,
}

/// The name of the custom resource.
impl Default for NameTemplate {
    fn default() -> Self {
        NameTemplate(vec![Part::Name])
    }
}

impl NameTemplate {
    /// Reads a template such as `{{ .kind }}-{{ .metadata.name }}`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let parts = parts(text)?;
        if !parts.contains(&Part::Name) {
            return Err(NameError::NoName(text.to_owned()));
        }
        let template = NameTemplate(parts);
        // Whatever the fields hold begins and ends with a letter or a digit, so one name stands for all.
        let sample = filled(&template.0, "k", Some("n"), "n");
        match tidied(&sample) == sample {
            true => Ok(template),
            false => Err(NameError::Shape(text.to_owned())),
        }
    }

    /// The release's name. `namespace` is none for a cluster-scoped resource; what stood between it and the next part goes too.
    pub fn name(&self, kind: &str, namespace: Option<&str>, name: &str) -> String {
        short(tidied(&filled(&self.0, kind, namespace, name)))
    }

    /// Whether a release has the name of its custom resource, as far as that is short enough.
    pub fn is_plain(&self) -> bool {
        self.0 == [Part::Name]
    }
}

/// The name of an object that a custom resource refers to, with the same fields. Many may refer to one, so it need not tell them
/// apart, and it is not cut: the object has the name that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName(Vec<Part>);

impl ObjectName {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = ObjectName(parts(text)?);
        match is_object_name(&name.fill("k", Some("n"), "n")) {
            true => Ok(name),
            false => Err(NameError::ObjectShape(text.to_owned())),
        }
    }

    pub fn fill(&self, kind: &str, namespace: Option<&str>, name: &str) -> String {
        filled(&self.0, kind, namespace, name)
    }
}

/// Whether a text can be the name of an object: a DNS subdomain.
pub fn is_object_name(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Whether helm takes a text as the name of a release.
pub fn is_release_name(text: &str) -> bool {
    text.len() <= LONGEST && is_object_name(text)
}

fn parts(text: &str) -> Result<Vec<Part>, NameError> {
    let mut parts = vec![];
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        parts.extend(fixed(before)?);
        let (field, after) = behind.split_once("}}").ok_or_else(|| NameError::Open(format!("{{{{{behind}")))?;
        parts.push(part(field)?);
        rest = after;
    }
    parts.extend(fixed(rest)?);
    Ok(parts)
}

fn filled(parts: &[Part], kind: &str, namespace: Option<&str>, name: &str) -> String {
    let filled = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Name => name.to_owned(),
        Part::Namespace => namespace.unwrap_or_default().to_owned(),
        Part::Kind => kind.to_lowercase(),
    });
    filled.collect()
}

fn fixed(text: &str) -> Result<Option<Part>, NameError> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    match text.chars().find(|c| !is_allowed(*c)) {
        Some(found) => Err(NameError::Character { found }),
        None => Ok((!text.is_empty()).then(|| Part::Text(text.to_owned()))),
    }
}

fn part(inside: &str) -> Result<Part, NameError> {
    let field = match inside.split_once('|') {
        // Templates for other tools say so. Here it is so anyway.
        Some((field, function)) if function.trim() == "lower" => field,
        _ => inside,
    };
    match field.trim() {
        NAME => Ok(Part::Name),
        NAMESPACE => Ok(Part::Namespace),
        KIND => Ok(Part::Kind),
        _ => Err(NameError::Unknown(inside.to_owned())),
    }
}

/// Without dots and dashes that have nothing to separate.
fn tidied(name: &str) -> String {
    let labels = name.split('.').map(|label| label.trim_matches('-')).filter(|label| !label.is_empty());
    labels.collect::<Vec<_>>().join(".")
}

/// Never change this: a release would be made again under another name.
fn short(name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let hash: String = digest(&SHA256, name.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let cut: String = name.chars().take(LONGEST - HASH - 1).collect();
    format!("{}-{}", cut.trim_end_matches(['-', '.']), &hash[..HASH])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_name_of_an_object_may_be_shared_and_long() {
        let filled = |text: &str, name: &str| ObjectName::parse(text).unwrap().fill("WebApp", Some("shop"), name);
        assert_eq!(filled("common", "a"), "common");
        let long = "a".repeat(100);
        assert_eq!(filled("{{ .kind }}-{{ .metadata.name }}-values", &long), format!("webapp-{long}-values"));
        for (text, expected) in [
            ("", "makes no name of an object"),
            ("-a", "makes no name of an object"),
            ("A", "'A' cannot be in a name"),
            ("other/a", "'/' cannot be in a name"),
            ("{{ .spec.x }}", "is not known: write"),
        ] {
            let message = ObjectName::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    fn named(template: &str, namespace: Option<&str>, name: &str) -> String {
        NameTemplate::parse(template).unwrap().name("WebApp", namespace, name)
    }

    fn message(template: &str) -> String {
        NameTemplate::parse(template).unwrap_err().to_string()
    }

    #[test]
    fn without_a_template_a_release_has_the_name_of_its_custom_resource() {
        let template = NameTemplate::default();
        assert!(template.is_plain());
        assert_eq!(template.name("Web", Some("shop"), "a.b-c"), "a.b-c");
        assert_eq!(NameTemplate::parse("{{ .metadata.name }}").unwrap(), template);
        assert!(!NameTemplate::parse("a-{{ .metadata.name }}").unwrap().is_plain());
    }

    #[test]
    fn a_template_is_filled_in() {
        let cases = [
            ("{{ .kind }}-{{ .metadata.name }}", "webapp-a"),
            ("{{.kind|lower}}-{{.metadata.name | lower}}", "webapp-a"),
            ("{{ .metadata.namespace }}.x-{{  .metadata.name  }}-1", "shop.x-a-1"),
        ];
        for (template, expected) in cases {
            assert_eq!(named(template, Some("shop"), "a"), expected, "{template}");
        }
    }

    #[test]
    fn what_has_no_namespace_has_no_dash_for_one_either() {
        let cases = [
            ("{{ .metadata.namespace }}-{{ .metadata.name }}", "a"),
            ("{{ .metadata.name }}.{{ .metadata.namespace }}", "a"),
            ("x-{{ .metadata.namespace }}.{{ .metadata.name }}", "x.a"),
        ];
        for (template, expected) in cases {
            assert_eq!(named(template, None, "a"), expected, "{template}");
        }
    }

    #[test]
    fn a_wrong_template_is_refused_with_what_to_write() {
        let allowed = "write {{ .metadata.name }}, {{ .metadata.namespace }} or {{ .kind }}";
        let cases = [
            ("{{ .spec.a }}-{{ .metadata.name }}", &*format!("`{{{{ .spec.a }}}}` is not known: {allowed}")),
            ("{{ .metadata.name | upper }}", "`{{ .metadata.name | upper }}` is not known"),
            ("{{ metadata.name }}", "`{{ metadata.name }}` is not known"),
            ("{{- .metadata.name }}", "is not known"),
            ("{{ .metadata.name", "`{{ .metadata.name` has no `}}` behind it"),
            ("shop", "`shop` is without {{ .metadata.name }}, so that all custom resources would share one release"),
            ("", "would share one release"),
            ("{{ .kind }}-{{ .metadata.namespace }}", "would share one release"),
            ("A-{{ .metadata.name }}", "'A' cannot be in a name: use small letters"),
            ("{{ .metadata.name }}_x", "'_' cannot be in a name"),
            ("{{ .metadata.name }}}}", "'}' cannot be in a name"),
            ("-{{ .metadata.name }}", "`-{{ .metadata.name }}` makes no name of a release: a letter or a digit comes"),
            ("{{ .metadata.name }}.", "makes no name of a release"),
            ("a..{{ .metadata.name }}", "makes no name of a release"),
            ("a.-{{ .metadata.name }}", "makes no name of a release"),
        ];
        for (template, expected) in cases {
            let message = message(template);
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        }
    }

    #[test]
    fn a_long_name_is_cut_and_stays_the_same_for_ever() {
        let fits = "a".repeat(LONGEST);
        assert_eq!(NameTemplate::default().name("Web", None, &fits), fits);
        // The hash was made with sha256sum.
        let long = "a".repeat(LONGEST + 1);
        let expected = format!("{}-a3f01b69", "a".repeat(44));
        assert_eq!(NameTemplate::default().name("Web", None, &long), expected);
    }

    #[test]
    fn nothing_but_one_dash_stands_before_the_hash() {
        let long = format!("{}--{}", "a".repeat(42), "b".repeat(30));
        let name = NameTemplate::default().name("Web", None, &long);
        assert!(name.starts_with(&format!("{}-", "a".repeat(42))) && !name.contains("--"), "{name}");
    }

    /// Helm's rule, by hand: `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`.
    fn is_valid(name: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_label = |label: &str| {
            label.starts_with(is_plain) && label.ends_with(is_plain) && label.chars().all(|c| is_plain(c) || c == '-')
        };
        name.len() <= LONGEST && name.split('.').all(is_label)
    }

    const LABEL: &str = "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?";

    fn subdomain() -> impl Strategy<Value = String> {
        proptest::collection::vec(LABEL, 1..6).prop_map(|labels| labels.join("."))
    }

    fn template() -> impl Strategy<Value = String> {
        let part = proptest::sample::select(vec!["-", ".", "x", "{{ .kind }}", "{{.metadata.namespace}}"]);
        let parts = || proptest::collection::vec(part.clone(), 0..4).prop_map(|parts| parts.concat());
        (parts(), parts()).prop_map(|(before, behind)| format!("{before}{{{{ .metadata.name }}}}{behind}"))
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_helm_takes_and_no_two_are_the_same(
            text in template(), namespace in proptest::option::of(LABEL), one in subdomain(), other in subdomain(),
        ) {
            let template = NameTemplate::parse(&text);
            prop_assume!(template.is_ok());
            let template = template.unwrap();
            let name = |name: &str| template.name("WebApp", namespace.as_deref(), name);
            prop_assert!(is_valid(&name(&one)) && is_release_name(&name(&one)), "{text} makes {} of {one}", name(&one));
            prop_assert_eq!(name(&one) == name(&other), one == other);
            prop_assert_eq!(name(&one), name(&one.clone()));
        }

        #[test]
        fn a_text_is_the_name_of_a_release_by_helms_rule(text in "[a-zA-Z0-9.=/-]{0,60}") {
            prop_assert_eq!(is_release_name(&text), is_valid(&text));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-z.{}|\\- ]{0,40}") {
            let _ = NameTemplate::parse(&text);
        }
    }
}
