//! The text files of a chart with all of its subcharts, packed ones unpacked, as data.
//!
//! Only [`Tree::read`] touches the disk. What is no text is left out: no template or values file is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::chart::{Chart, ChartError, MOST_FILE_BYTES, archive, files};
use crate::yaml;

/// Charts in charts. helm goes deeper, charts do not.
const MOST_DEPTH: usize = 8;

/// Paths, from the chart's own directory, and contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree(BTreeMap<String, String>);

/// A chart of a tree, as its parent includes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// `charts/redis/`; empty for the chart itself.
    pub prefix: String,
    /// Where its values are in those of the chart: `[redis]`, or its alias.
    pub path: Vec<String>,
    /// The values that switch it on.
    pub conditions: Vec<Vec<String>>,
}

impl Tree {
    /// # Errors
    /// The chart's copy cannot be read.
    pub fn read(chart: &Chart) -> Result<Self, ChartError> {
        let mut tree = Tree::default();
        for found in files::list(&chart.dir)? {
            let content =
                std::fs::read(&found.file).map_err(|error| ChartError::Read { file: found.file.clone(), error })?;
            tree.add(&found.path.to_string_lossy(), content, 0);
        }
        Ok(tree)
    }

    /// A tree of these files.
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Tree(files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect())
    }

    fn add(&mut self, path: &str, content: Vec<u8>, depth: usize) {
        let Some(charts) = packed_in(path).filter(|_| depth < MOST_DEPTH) else {
            if let Ok(text) = String::from_utf8(content) {
                self.0.insert(path.to_owned(), text);
            }
            return;
        };
        // What cannot be unpacked was refused when the chart was loaded.
        let _ = archive::each_file(content.as_slice(), |path, _, entry| {
            let mut content = vec![];
            entry.take(MOST_FILE_BYTES).read_to_end(&mut content).map_err(|_| ())?;
            self.add(&format!("{charts}{}", path.to_string_lossy()), content, depth + 1);
            Ok::<(), ()>(())
        });
    }

    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// A file as YAML; null where there is none, or it is no YAML.
    pub fn yaml(&self, path: &str) -> Value {
        self.get(path).and_then(|text| yaml::parse(text).ok()).unwrap_or_default()
    }

    /// Templates and helpers of a member, not of the charts below it.
    pub fn templates<'a>(&'a self, member: &'a Member) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_template = |path: &str| {
            path.strip_prefix(&member.prefix).is_some_and(|rest| rest.starts_with("templates/"))
                && !path.ends_with("NOTES.txt")
        };
        self.iter().filter(move |(path, _)| is_template(path))
    }

    /// The chart and all that it includes, each as often as it is included.
    pub fn members(&self) -> Vec<Member> {
        let mut members = vec![Member { prefix: String::new(), path: vec![], conditions: vec![] }];
        let mut next = 0;
        while let Some(parent) = members.get(next).cloned() {
            if parent.path.len() < MOST_DEPTH {
                members.extend(self.included(&parent));
            }
            next += 1;
        }
        members
    }

    fn included(&self, parent: &Member) -> Vec<Member> {
        let charts = format!("{}charts/", parent.prefix);
        let below = self.0.keys().filter_map(|path| path.strip_prefix(&charts)?.split_once('/').map(|(dir, _)| dir));
        let dirs: BTreeSet<&str> = below.collect();
        let dependencies = self.dependencies(&parent.prefix);
        let mut included = vec![];
        for dir in dirs {
            let prefix = format!("{charts}{dir}/");
            let metadata = self.yaml(&format!("{prefix}Chart.yaml"));
            let name = metadata["name"].as_str().unwrap_or(dir);
            let named: Vec<&Value> = dependencies.iter().filter(|it| it["name"] == name).collect();
            let as_it_is = Value::Null;
            for dependency in if named.is_empty() { vec![&as_it_is] } else { named } {
                let key = dependency["alias"].as_str().unwrap_or(name);
                let below =
                    |rest: &str| parent.path.iter().cloned().chain(rest.split('.').map(str::to_owned)).collect();
                let conditions = dependency["condition"].as_str().unwrap_or_default().split(',');
                let conditions = conditions.map(str::trim).filter(|it| !it.is_empty()).map(below);
                let mut path = parent.path.clone();
                path.push(key.to_owned());
                let conditions = parent.conditions.iter().cloned().chain(conditions).collect();
                included.push(Member { prefix: prefix.clone(), path, conditions });
            }
        }
        included
    }

    fn dependencies(&self, prefix: &str) -> Vec<Value> {
        let of = |file: &str| match self.yaml(&format!("{prefix}{file}")).get_mut("dependencies") {
            Some(Value::Array(all)) => std::mem::take(all),
            _ => vec![],
        };
        // Charts of apiVersion v1 have them in a file of their own.
        let all = of("Chart.yaml");
        if all.is_empty() { of("requirements.yaml") } else { all }
    }
}

/// `a/charts/` of `a/charts/redis-1.0.0.tgz`.
fn packed_in(path: &str) -> Option<&str> {
    let is_packed = Path::new(path).extension().is_some_and(|it| it == "tgz");
    let end = path.rfind('/')? + 1;
    path[..end].ends_with("charts/").then_some(&path[..end]).filter(|_| is_packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcharts_are_found_under_their_names_and_aliases() {
        let parent = "name: app\ndependencies:\n- {name: redis, alias: cache, condition: 'cache.enabled, x'}\n\
                      - {name: redis, alias: queue}\n";
        let tree = Tree::of([
            ("Chart.yaml", parent),
            ("charts/redis/Chart.yaml", "name: redis"),
            ("charts/redis/charts/common/Chart.yaml", "name: common"),
        ]);
        let members: Vec<(String, String)> =
            tree.members().into_iter().map(|it| (it.prefix, it.path.join("."))).collect();
        let redis = "charts/redis/".to_owned();
        let common = "charts/redis/charts/common/".to_owned();
        let expected = [
            (String::new(), String::new()),
            (redis.clone(), "cache".into()),
            (redis, "queue".into()),
            (common.clone(), "cache.common".into()),
            (common, "queue.common".into()),
        ];
        assert_eq!(members, expected);
        assert_eq!(tree.members()[1].conditions, [vec!["cache", "enabled"], vec!["x"]]);
        assert_eq!(tree.members()[3].conditions.len(), 2, "what a chart is in must be on too");
    }

    #[test]
    fn a_packed_subchart_is_looked_into() {
        let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(vec![], Default::default()));
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        header.set_mode(0o644);
        builder.append_data(&mut header, "redis/values.yaml", &b"a: 1"[..]).unwrap();
        let packed = builder.into_inner().unwrap().finish().unwrap();
        let mut tree = Tree::default();
        tree.add("charts/redis-1.0.0.tgz", packed, 0);
        assert_eq!(tree.get("charts/redis/values.yaml"), Some("a: 1"));
    }

    #[test]
    fn templates_belong_to_the_chart_that_has_them() {
        let tree = Tree::of([
            ("templates/a.yaml", ""),
            ("templates/NOTES.txt", ""),
            ("charts/b/Chart.yaml", "name: b"),
            ("charts/b/templates/_b.tpl", ""),
        ]);
        let of = |member: &Member| tree.templates(member).map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
        let found: Vec<_> = tree.members().iter().map(of).collect();
        assert_eq!(found, [vec!["templates/a.yaml"], vec!["charts/b/templates/_b.tpl"]]);
    }
}
