//! Names with the name and the namespace of the release in them: `{{ .Release.Name }}-headless.{{ .Release.Namespace }}.svc`. Pure.

const NAME: &str = ".Release.Name";
const NAMESPACE: &str = ".Release.Namespace";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatternError {
    #[error("`{{{{{0}}}}}` is not known: write {{{{ {NAME} }}}} or {{{{ {NAMESPACE} }}}}")]
    Unknown(String),
    #[error("`{0}` has no `}}}}` behind it: write for example {{{{ {NAME} }}}}")]
    Open(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Name,
    Namespace,
}

/// The release that a value is generated for.
#[derive(Clone, Copy, Debug)]
pub struct Release<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (mut parts, mut rest) = (vec![], text);
        while let Some((before, behind)) = rest.split_once("{{") {
            let (field, after) = behind.split_once("}}").ok_or_else(|| PatternError::Open(format!("{{{{{behind}")))?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(match field.trim() {
                NAME => Part::Name,
                NAMESPACE => Part::Namespace,
                _ => return Err(PatternError::Unknown(field.to_owned())),
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Pattern(parts))
    }

    pub fn fill(&self, release: Release<'_>) -> String {
        let filled = self.0.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Name => release.name,
            Part::Namespace => release.namespace,
        });
        filled.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_filled_with_the_release() {
        let release = Release { name: "web", namespace: "shop" };
        let filled = |text: &str| Pattern::parse(text).map(|it| it.fill(release));
        assert_eq!(filled("{{ .Release.Name }}.{{.Release.Namespace}}.svc"), Ok("web.shop.svc".to_owned()));
        assert_eq!(filled("localhost"), Ok("localhost".to_owned()));
        assert_eq!(filled("{{ .Values.a }}"), Err(PatternError::Unknown(" .Values.a ".to_owned())));
        assert_eq!(filled("{{ .Release.Name"), Err(PatternError::Open("{{ .Release.Name".to_owned())));
    }
}
