//! The edge: a chart is rendered in many ways, with helm and without a cluster.
//!
//! A render that fails shows nothing and is no error: values that exclude each other are among those that are tried.

use std::cell::Cell;
use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, future, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RbacError;
use super::branches::{self, Branch, beyond};
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
use crate::render::process::processors;
use crate::render::{Helm, RenderError, Request, asks};
use crate::values::{Overrides, Values};

/// What is rendered, and with what.
pub struct Subject<'a> {
    pub chart: &'a Chart,
    pub overrides: &'a Overrides,
    pub helm: &'a Helm,
    /// Specs that somebody wrote for it: samples, and values of its own tests.
    pub specs: Vec<Value>,
    pub most_renders: usize,
    /// Called with what has been rendered so far, as a text for a person.
    pub progress: &'a dyn Fn(&str),
}

/// What a chart can make, and what it makes by default.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Surveyed {
    pub findings: Findings,
    pub by_default: Trial,
    /// Whether a second survey would find the same. A render that exceeded a limit of time or memory may succeed later.
    pub is_final: bool,
}

/// Why a render failed.
struct Refused {
    why: String,
    /// False for a limit of time or memory.
    is_final: bool,
}

/// The values below those of every branch.
struct Base {
    spec: Value,
    /// Why the chart does not render, if no spec makes it.
    why_none: Option<String>,
    /// What the chart makes with these values alone.
    made: Option<Vec<Printed>>,
    is_final: bool,
}

/// What makes a render differ from others: the values that are not defaults, whether it is an upgrade, and, for a chart that asks, whether
/// the cluster has more kinds.
type Meaning = (String, bool, bool);

/// Of a chart that no values made render.
pub const NOT_RENDERED: &str = "the chart does not render, so its rights are read from its templates alone";

impl Subject<'_> {
    pub async fn survey(&self) -> Result<Surveyed, RbacError> {
        let tree = Tree::read(self.chart)?;
        let scan = scan::scan(&tree);
        let mut findings = Findings::default();
        findings.add(&crds_of(&tree));
        let ((by_default, is_known), base) = future::try_join(self.by_default(), self.base(&tree)).await?;
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
        let (made, are_final) = self.render_all(&all, &base).await?;
        made.iter().flatten().for_each(|printed| findings.add(printed));
        if let (true, Some(why)) = (made.iter().all(Option::is_none), base.why_none) {
            findings
                .notes
                .push(format!("templates: {NOT_RENDERED}: {why}; put a spec that it takes into config/samples"));
        }
        findings.add_scan(&scan);
        Ok(Surveyed { findings, by_default, is_final: is_known && base.is_final && are_final })
    }

    /// What the operator will find out at its start, and whether that is final.
    async fn by_default(&self) -> Result<(Trial, bool), RbacError> {
        let capabilities = Capabilities::default();
        let limits = &self.helm.limits;
        match Trial::of(self.chart, self.overrides, SOME_NAMESPACE, &capabilities, self.helm).await {
            Err(error @ RenderError::TimeLimit(_)) => Ok((Trial::Refused(error.to_string()), false)),
            Ok(Trial::Refused(why)) => {
                let limited = [RenderError::MemoryLimit(limits.memory), RenderError::OutputLimit(limits.output)];
                let is_final = limited.iter().all(|limited| limited.to_string() != why);
                Ok((Trial::Refused(why), is_final))
            }
            trial => Ok((trial?, true)),
        }
    }

    /// None, or, where the chart does not render with its defaults, a spec with which it does.
    async fn base(&self, tree: &Tree) -> Result<Base, RbacError> {
        let nothing = Value::Object(Map::new());
        let (mut why_none, mut is_final) = (None, true);
        let specs = self.specs.iter().cloned().chain(values_for_tests(tree));
        for spec in std::iter::once(nothing.clone()).chain(specs) {
            match self.render(&spec, &Branch::default()).await? {
                Ok(made) => return Ok(Base { spec, why_none: None, made: Some(made), is_final }),
                Err(refused) => {
                    is_final &= refused.is_final;
                    why_none = why_none.or(Some(refused.why));
                }
            }
        }
        Ok(Base { spec: nothing, why_none, made: None, is_final })
    }

    /// What each branch makes, None where it does not render, and whether all of that is final. Branches with the same meaning are rendered
    /// once.
    async fn render_all(
        &self,
        branches: &[Branch],
        base: &Base,
    ) -> Result<(Vec<Option<Vec<Printed>>>, bool), RbacError> {
        let own = self.chart.defaults();
        let specs: Vec<Value> = branches.iter().map(|branch| over(base.spec.clone(), &branch.spec)).collect();
        let meanings: Vec<Meaning> =
            branches.iter().zip(&specs).map(|(branch, spec)| self.meaning(&own, spec, branch)).collect();
        let mut made = BTreeMap::new();
        if let Some(printed) = &base.made {
            made.insert(self.meaning(&own, &base.spec, &Branch::default()), Some(printed.clone()));
        }
        let mut wanted = BTreeMap::new();
        for (meaning, way) in meanings.iter().zip(specs.iter().zip(branches)) {
            if !made.contains_key(meaning) {
                wanted.entry(meaning.clone()).or_insert(way);
            }
        }
        let (total, done, are_final) = (wanted.len(), Cell::new(0), Cell::new(true));
        let renders = wanted.into_iter().map(|(meaning, (spec, branch))| {
            let (done, are_final) = (&done, &are_final);
            async move {
                let rendered = self.render(spec, branch).await?;
                done.set(done.get() + 1);
                let Chart { name, version, .. } = self.chart;
                (self.progress)(&format!("rendering {name} {version}: {} of {total}", done.get()));
                let printed = rendered.map_err(|refused| are_final.set(are_final.get() && refused.is_final));
                Ok::<_, RbacError>((meaning, printed.ok()))
            }
        });
        // Unordered: a slow render must not keep the next one from starting.
        let renders = stream::iter(renders.collect::<Vec<_>>()).buffer_unordered(processors());
        made.extend(renders.try_collect::<Vec<_>>().await?);
        Ok((meanings.iter().map(|meaning| made.get(meaning).cloned().flatten()).collect(), are_final.get()))
    }

    /// `own` are the chart's own defaults.
    fn meaning(&self, own: &Value, spec: &Value, branch: &Branch) -> Meaning {
        let asks =
            || Values::new(Some(spec), self.overrides).map_or(true, |values| asks(self.chart, &values).api_versions);
        (beyond(own, spec).to_string(), branch.is_upgrade, branch.has_more_kinds && asks())
    }

    async fn render(&self, spec: &Value, branch: &Branch) -> Result<Result<Vec<Printed>, Refused>, RbacError> {
        let values = match Values::new(Some(spec), self.overrides) {
            Ok(values) => values,
            Err(error) => return Ok(Err(Refused { why: error.to_string(), is_final: true })),
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
        let error = match self.helm.template(&request).await {
            Ok(text) => return Ok(Ok(read_aside(text).await)),
            Err(error) => error,
        };
        let is_limit = |error: &RenderError| {
            matches!(error, RenderError::TimeLimit(_) | RenderError::MemoryLimit(_) | RenderError::OutputLimit(_))
        };
        match error {
            error @ RenderError::TimeLimit(_) => Ok(Err(Refused { why: error.to_string(), is_final: false })),
            error if error.category() == Category::HelmFailed => Err(RbacError::Helm(error)),
            error => Ok(Err(Refused { why: error.to_string(), is_final: !is_limit(&error) })),
        }
    }
}

/// Parses helm's output on another thread than the one that starts the next render.
async fn read_aside(text: String) -> Vec<Printed> {
    let reading = tokio::task::spawn_blocking(move || manifest::survey(&text));
    reading.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
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
