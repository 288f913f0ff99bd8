//! The chart repositories that a person has told helm about, and those of them that a chart needs.
//!
//! Pure. helm refreshes whatever is in its file: with all of a person's repositories in it, one that is slow or gone would hold up
//! everybody.

use serde_yaml::{Mapping, Value};

use super::dependencies::Dependency;

/// helm's repositories.yaml.
#[derive(Clone, Debug, Default)]
pub struct Repositories(Vec<Mapping>);

impl Repositories {
    /// A text that cannot be read has none: helm would say so, and then nobody could do anything without repositories.
    pub fn parse(text: &str) -> Self {
        let file: Mapping = serde_yaml::from_str(text).unwrap_or_default();
        let entries = file.get("repositories").and_then(Value::as_sequence).cloned().unwrap_or_default();
        Repositories(entries.into_iter().filter_map(|entry| entry.as_mapping().cloned()).collect())
    }

    pub fn text(&self) -> String {
        let mut file = Mapping::new();
        file.insert("apiVersion".into(), "".into());
        file.insert("repositories".into(), Value::Sequence(self.0.iter().cloned().map(Value::Mapping).collect()));
        // A map of texts can always be written.
        serde_yaml::to_string(&file).unwrap_or_default()
    }

    /// Only the one of this name.
    pub fn named(&self, name: &str) -> Option<Self> {
        let found = self.0.iter().find(|entry| field(entry, "name") == name)?;
        Some(Repositories(vec![found.clone()]))
    }

    /// Those that dependencies come from. An address that nobody knows gets a name of its own.
    pub fn of(&self, dependencies: &[Dependency]) -> Self {
        let mut needed: Vec<Mapping> = vec![];
        for dependency in dependencies {
            let repository = dependency.repository.as_str();
            let alias = repository.strip_prefix('@').or_else(|| repository.strip_prefix("alias:"));
            let is_address = repository.starts_with("http://") || repository.starts_with("https://");
            let is_meant = |entry: &&Mapping| match alias {
                Some(alias) => field(entry, "name") == alias,
                None => same(field(entry, "url"), repository),
            };
            if needed.iter().any(|entry| is_meant(&entry)) {
                continue;
            }
            match self.0.iter().find(is_meant) {
                Some(known) => needed.push(known.clone()),
                None if is_address => {
                    let name = format!("needed-{}", needed.len());
                    needed
                        .push([("name".into(), name.into()), ("url".into(), repository.into())].into_iter().collect());
                }
                None => {}
            }
        }
        Repositories(needed)
    }
}

fn field<'a>(entry: &'a Mapping, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn same(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "apiVersion: ''\nrepositories:\n- {name: one, url: 'https://one/', username: me}\n- {name: two, url: 'https://two'}\n";

    fn from(repository: &str) -> Dependency {
        Dependency { name: "a".into(), version: "1".into(), repository: repository.into() }
    }

    fn names(repositories: &Repositories) -> Vec<&str> {
        repositories.0.iter().map(|entry| field(entry, "name")).collect()
    }

    #[test]
    fn only_what_a_chart_needs_is_taken_with_its_password() {
        let all = Repositories::parse(FILE);
        let needs = [
            from("https://one"),
            from("@two"),
            from("https://three"),
            from("https://three"),
            from("oci://x"),
            from(""),
        ];
        let needed = all.of(&needs);
        assert_eq!(names(&needed), ["one", "two", "needed-2"]);
        assert!(needed.text().contains("username: me"));
        assert_eq!(names(&Repositories::parse(&needed.text())), ["one", "two", "needed-2"]);
        assert!(all.named("two").is_some() && all.named("three").is_none());
    }
}
