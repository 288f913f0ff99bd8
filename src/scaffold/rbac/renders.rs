//! The edge: a chart is rendered in many ways, with helm and without a cluster.
//!
//! A render that fails shows nothing and is no error: values that exclude each other are among those that are tried.

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value};

use super::RbacError;
use super::branches::{self, Branch};
use super::findings::Findings;
use super::grants::RELEASE;
use super::kinds::api_versions_often_there;
use super::scan;
use super::tree::Tree;
use crate::chart::Chart;
use crate::discovery::Capabilities;
use crate::error::Category;
use crate::manifest::{self, Printed};
use crate::reach::trial::{SOME_NAMESPACE, Trial};
use crate::render::{Helm, RenderError, Request};
use crate::values::{Overrides, Placed, Values};

/// What is rendered, and with what.
pub struct Subject<'a> {
    pub chart: &'a Chart,
    pub overrides: &'a Overrides,
    /// Stand-ins for generated values.
    pub generated: Vec<Placed>,
    pub helm: &'a Helm,
    /// Specs that somebody wrote for it: samples, and values of its own tests.
    pub specs: Vec<Value>,
    pub most_renders: usize,
}

/// What a chart can make, and what it makes by default.
#[derive(Clone, Debug)]
pub struct Surveyed {
    pub findings: Findings,
    pub by_default: Trial,
}

/// Of a chart that no values made render.
pub const NOT_RENDERED: &str = "the chart does not render, so its rights are read from its templates alone";

impl Subject<'_> {
    pub async fn survey(&self) -> Result<Surveyed, RbacError> {
        let tree = Tree::read(self.chart)?;
        let scan = scan::scan(&tree);
        let mut findings = Findings::default();
        findings.add(&crds_of(&tree));
        let by_default = self.by_default().await?;
        let (base, why_none) = self.base(&tree).await?;
        let mut all = branches::branches(&tree, &scan.comparisons);
        let specs = self.specs.iter().cloned().chain(values_for_tests(&tree));
        let specs = specs.map(|spec| Branch { spec, ..Branch::default() });
        // Before those that throw one switch: somebody thought about them.
        let place = all.len().min(7);
        all.splice(place..place, specs);
        if all.len() > self.most_renders {
            findings.notes.push(format!(
                "templates: only {} of {} combinations of values were rendered; --max-renders allows more",
                self.most_renders,
                all.len()
            ));
            all.truncate(self.most_renders);
        }
        let made = self.render_all(&all, &base).await?;
        made.iter().flatten().for_each(|printed| findings.add(printed));
        match why_none {
            Some(why) if made.iter().all(Option::is_none) => findings
                .notes
                .push(format!("templates: {NOT_RENDERED}: {why}; put a spec that it takes into config/samples")),
            None if !is_upgradable(&all, &made) => findings.notes.extend(self.why_no_upgrade(&base).await?),
            _ => {}
        }
        findings.add_scan(&scan);
        Ok(Surveyed { findings, by_default })
    }

    /// What the operator will find out about it at its start.
    async fn by_default(&self) -> Result<Trial, RbacError> {
        let capabilities = Capabilities::default();
        match Trial::of(self.chart, (&self.generated, self.overrides), SOME_NAMESPACE, &capabilities, self.helm).await {
            Err(RenderError::TimeLimit(after)) => Ok(Trial::Refused(RenderError::TimeLimit(after).to_string())),
            trial => trial.map_err(RbacError::Helm),
        }
    }

    /// The values below all others: none, or, where the chart does not render with its defaults, a spec with which it does.
    async fn base(&self, tree: &Tree) -> Result<(Value, Option<String>), RbacError> {
        let nothing = Value::Object(Map::new());
        let mut why_none = None;
        let specs = self.specs.iter().cloned().chain(values_for_tests(tree));
        for spec in std::iter::once(nothing.clone()).chain(specs) {
            match self.render(&spec, &Branch::default()).await? {
                Ok(_) => return Ok((spec, None)),
                Err(why) => why_none = why_none.or(Some(why)),
            }
        }
        Ok((nothing, why_none))
    }

    /// Why a chart that renders does not render as an upgrade with the same values: then nobody could edit a custom resource.
    async fn why_no_upgrade(&self, base: &Value) -> Result<Option<String>, RbacError> {
        const LONGEST: usize = 400;
        let upgrade = Branch { is_upgrade: true, ..Branch::default() };
        let Err(why) = self.render(base, &upgrade).await? else { return Ok(None) };
        let words: Vec<&str> = why.split_whitespace().collect();
        let why: String = words.join(" ").chars().take(LONGEST).collect();
        Ok(Some(format!(
            "templates: the chart renders as an install and not as an upgrade with the same values, so edits of a custom resource may be refused; if it demands passwords, have them generated with `generate` in watches.yaml: {why}"
        )))
    }

    /// None where a branch does not render.
    async fn render_all(&self, all: &[Branch], base: &Value) -> Result<Vec<Option<Vec<Printed>>>, RbacError> {
        let at_once = std::thread::available_parallelism().map_or(2, usize::from);
        let renders = all.iter().map(|branch| async move {
            let rendered = self.render(&over(base.clone(), &branch.spec), branch).await?;
            Ok(rendered.ok().map(|text| manifest::survey(&text)))
        });
        stream::iter(renders.collect::<Vec<_>>()).buffered(at_once).try_collect().await
    }

    /// The inner error is why the chart does not render so.
    async fn render(&self, spec: &Value, branch: &Branch) -> Result<Result<String, String>, RbacError> {
        let values = match Values::with_generated(Some(spec), &self.generated, self.overrides) {
            Ok(values) => values,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let api_versions = if branch.has_more_kinds { api_versions_often_there() } else { vec![] };
        let capabilities = Capabilities { api_versions, ..Capabilities::default() };
        let request = Request {
            chart: self.chart,
            release: RELEASE,
            namespace: SOME_NAMESPACE,
            values: &values,
            capabilities: &capabilities,
            is_upgrade: branch.is_upgrade,
            revision: 1,
            is_patient: false,
        };
        match self.helm.template(&request).await {
            Ok(text) => Ok(Ok(text)),
            Err(error @ RenderError::TimeLimit(_)) => Ok(Err(error.to_string())),
            Err(error) if error.category() == Category::HelmFailed => Err(RbacError::Helm(error)),
            Err(error) => Ok(Err(error.to_string())),
        }
    }
}

/// Whether the chart was rendered as an upgrade with its default values.
fn is_upgradable(all: &[Branch], made: &[Option<Vec<Printed>>]) -> bool {
    let is_plain = |it: &Branch| it.is_upgrade && !it.has_more_kinds && it.spec.as_object().is_some_and(Map::is_empty);
    all.iter().zip(made).any(|(branch, made)| is_plain(branch) && made.is_some())
}

/// Values over values, as a spec is put over the defaults.
fn over(mut below: Value, above: &Value) -> Value {
    match (&mut below, above) {
        (Value::Object(map), Value::Object(above)) => {
            for (key, value) in above {
                let merged = over(map.remove(key).unwrap_or_default(), value);
                map.insert(key.clone(), merged);
            }
            below
        }
        _ => above.clone(),
    }
}

/// Values with which the chart's authors test it: `ci/*-values.yaml`.
fn values_for_tests(tree: &Tree) -> Vec<Value> {
    let is_one = |path: &str| path.starts_with("ci/") && path.ends_with("values.yaml");
    let files = tree.iter().filter(|(path, _)| is_one(path));
    files.map(|(path, _)| tree.yaml(path)).filter(Value::is_object).collect()
}

/// The contents of crds/, which are there also where nothing renders.
fn crds_of(tree: &Tree) -> Vec<Printed> {
    let mut found = vec![];
    for member in tree.members() {
        let crds = format!("{}crds/", member.prefix);
        for (path, text) in tree.iter().filter(|(path, _)| path.starts_with(&crds)) {
            let documents = crate::yaml::documents(text).unwrap_or_default();
            let file = format!("{RELEASE}/{path}");
            found.extend(documents.into_iter().filter(Value::is_object).map(|object| Printed {
                file: file.clone(),
                is_of_crds: true,
                hook: None,
                object,
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_put_over_values() {
        let below = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        assert_eq!(
            over(below, &json!({"a": {"b": null}, "d": [2], "e": {}})),
            json!({"a": {"b": null, "c": 2}, "d": [2], "e": {}})
        );
    }

    #[test]
    fn crds_and_values_for_tests_are_found_in_the_tree() {
        let tree = Tree::of([
            ("ci/a-values.yaml", "a: 1"),
            ("ci/notes.md", "a"),
            ("charts/b/Chart.yaml", "name: b"),
            ("charts/b/crds/c.yaml", "kind: C\n---\nkind: D\n"),
        ]);
        assert_eq!(values_for_tests(&tree), [json!({"a": 1})]);
        assert_eq!(crds_of(&tree).len(), 2);
    }
}
