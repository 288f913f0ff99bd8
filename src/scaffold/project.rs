//! The PROJECT file: what a project is called, which APIs it has, and where their charts came from.
//!
//! It is kubebuilder's file, version 3, so that tools which know that find what they look for. What others put in is kept. Our own part
//! is under `plugins`, where any tool may have one: for each chart its source and the digest of its files, which tells later whether
//! somebody has changed it. The first releases of operator-sdk wrote version 3-alpha. It is read too, and becomes version 3 with the next
//! API.

use serde_yaml::{Mapping, Value};

use super::api::{Api, ApiError};
use super::error::ScaffoldError;

/// What operator-sdk calls a project of this kind.
pub const LAYOUT: &str = "helm.sdk.operatorframework.io/v1";
/// The version that operator-sdk wrote before 3.
const ALPHA: &str = "3-alpha";
const PLUGIN: &str = "chartwright.dev/v1";
const HEAD: &str = "# What this project is and which APIs it has. `chartwright` and operator-sdk read and write it.\n";

#[derive(Clone, Debug)]
pub struct Project {
    /// The comments that it begins with.
    head: String,
    fields: Mapping,
}

/// An API as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Without the domain.
    pub group: String,
    pub api: Api,
}

/// Where a chart came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub chart: String,
    pub source: String,
    pub version: String,
    /// Of its files, as they were written.
    pub digest: String,
}

impl Project {
    pub fn new(name: &str, domain: &str) -> Self {
        let mut fields = Mapping::new();
        fields.insert("domain".into(), domain.into());
        fields.insert("layout".into(), Value::Sequence(vec![LAYOUT.into()]));
        fields.insert("projectName".into(), name.into());
        fields.insert("version".into(), "3".into());
        Project { head: HEAD.to_owned(), fields }
    }

    /// # Errors
    /// It is no YAML, another version, or a project of another kind.
    pub fn parse(text: &str) -> Result<Self, ScaffoldError> {
        let wrong = |reason: String| ScaffoldError::ProjectFile(reason);
        let head: String = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).collect();
        let fields: Mapping = serde_yaml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let project = Project { head, fields };
        if !["3", ALPHA].contains(&project.text_of("version")) {
            return Err(wrong("its version is not \"3\"".into()));
        }
        let layouts = layouts(project.fields.get("layout"));
        match layouts.iter().any(|layout| is_helm(layout)) {
            true => Ok(project),
            false => Err(wrong(format!("its layout is {}, and only helm projects are known", layouts.join(", ")))),
        }
    }

    pub fn text(&self) -> Result<String, ScaffoldError> {
        let fields =
            serde_yaml::to_string(&self.fields).map_err(|error| ScaffoldError::ProjectFile(error.to_string()))?;
        Ok(format!("{}{fields}", self.head))
    }

    fn text_of(&self, field: &str) -> &str {
        self.fields.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.text_of("projectName")
    }

    pub fn domain(&self) -> &str {
        self.text_of("domain")
    }

    /// A short group with the domain.
    pub fn full_group(&self, group: &str) -> String {
        [group, self.domain()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
    }

    pub fn resources(&self) -> Result<Vec<Resource>, ApiError> {
        let Some(Value::Sequence(resources)) = self.fields.get("resources") else { return Ok(vec![]) };
        resources.iter().map(|resource| self.resource(resource)).collect()
    }

    fn resource(&self, value: &Value) -> Result<Resource, ApiError> {
        let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let domain = value.get("domain").and_then(Value::as_str).unwrap_or(self.domain());
        let group = [field("group"), domain].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
        // kubebuilder leaves the field out where it is false. Version 3-alpha has no such map, and its kinds are namespaced.
        let is_namespaced =
            value.get("api").is_none_or(|api| api.get("namespaced").and_then(Value::as_bool) == Some(true));
        let mut api = Api::new(&group, field("version"), field("kind"), is_namespaced)?;
        if !field("plural").is_empty() {
            api.plural = field("plural").to_owned();
        }
        Ok(Resource { group: field("group").to_owned(), api })
    }

    pub fn add(&mut self, resource: &Resource) {
        self.lift();
        let Resource { group, api } = resource;
        let mut served = Mapping::new();
        served.insert("crdVersion".into(), "v1".into());
        if api.is_namespaced {
            served.insert("namespaced".into(), true.into());
        }
        let mut fields = Mapping::new();
        fields.insert("api".into(), Value::Mapping(served));
        for (name, value) in [("domain", self.domain()), ("group", group), ("kind", &api.kind)] {
            fields.insert(name.into(), value.into());
        }
        if api.plural != super::api::plural(&api.singular) {
            fields.insert("plural".into(), api.plural.as_str().into());
        }
        fields.insert("version".into(), api.version.as_str().into());
        self.list("resources").push(Value::Mapping(fields));
    }

    pub fn remove(&mut self, resource: &Resource) {
        let names = |api: &Api| (api.group.clone(), api.version.clone(), api.kind.clone());
        let is_meant = |value: &Value, project: &Self| {
            project.resource(value).is_ok_and(|found| names(&found.api) == names(&resource.api))
        };
        let project = self.clone();
        self.list("resources").retain(|value| !is_meant(value, &project));
        if self.list("resources").is_empty() {
            self.fields.shift_remove("resources");
        }
    }

    /// Version 3-alpha becomes version 3, in which a resource says more of itself.
    fn lift(&mut self) {
        if self.text_of("version") != ALPHA {
            return;
        }
        self.put("version", "3".into());
        let layouts = layouts(self.fields.get("layout")).into_iter().map(Value::from).collect();
        self.put("layout", Value::Sequence(layouts));
        let domain = Value::from(self.domain());
        let Some(Value::Sequence(resources)) = self.fields.get_mut("resources") else { return };
        for resource in resources.iter_mut().filter_map(Value::as_mapping_mut) {
            let format = resource.shift_remove("crdVersion").unwrap_or_else(|| "v1".into());
            let api = Mapping::from_iter([("crdVersion".into(), format), ("namespaced".into(), true.into())]);
            resource.entry("api".into()).or_insert(Value::Mapping(api));
            resource.entry("domain".into()).or_insert(domain.clone());
            sort(resource);
        }
    }

    /// A list among the fields, which are in the order of their names, as kubebuilder writes them.
    fn list(&mut self, name: &str) -> &mut Vec<Value> {
        if !matches!(self.fields.get(name), Some(Value::Sequence(_))) {
            self.put(name, Value::Sequence(vec![]));
        }
        match self.fields.get_mut(name) {
            Some(Value::Sequence(list)) => list,
            _ => unreachable!("it was just put in"),
        }
    }

    fn put(&mut self, name: &str, value: Value) {
        self.fields.insert(name.into(), value);
        sort(&mut self.fields);
    }

    /// What is known of a chart.
    pub fn origin(&self, chart: &str) -> Option<Origin> {
        let charts = self.fields.get("plugins")?.get(PLUGIN)?.get("charts")?;
        let found =
            charts.as_sequence()?.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some(chart))?;
        let field = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (source, version, digest) = (field("source"), field("version"), field("digest"));
        Some(Origin { chart: chart.to_owned(), source, version, digest })
    }

    pub fn set_origin(&mut self, origin: &Origin) {
        self.forget_origin(&origin.chart);
        let mut entry = Mapping::new();
        let fields = [
            ("name", &origin.chart),
            ("source", &origin.source),
            ("version", &origin.version),
            ("digest", &origin.digest),
        ];
        for (name, value) in fields {
            entry.insert(name.into(), value.as_str().into());
        }
        let mut charts = self.charts();
        charts.push(Value::Mapping(entry));
        self.set_charts(charts);
    }

    pub fn forget_origin(&mut self, chart: &str) {
        let mut charts = self.charts();
        charts.retain(|entry| entry.get("name").and_then(Value::as_str) != Some(chart));
        self.set_charts(charts);
    }

    fn charts(&self) -> Vec<Value> {
        let charts = self.fields.get("plugins").and_then(|plugins| plugins.get(PLUGIN)?.get("charts")?.as_sequence());
        charts.cloned().unwrap_or_default()
    }

    fn set_charts(&mut self, charts: Vec<Value>) {
        let mut plugins = self.fields.get("plugins").and_then(Value::as_mapping).cloned().unwrap_or_default();
        let mut own = plugins.get(PLUGIN).and_then(Value::as_mapping).cloned().unwrap_or_default();
        match charts.is_empty() {
            true => own.shift_remove("charts"),
            false => own.insert("charts".into(), Value::Sequence(charts)),
        };
        match own.is_empty() {
            true => plugins.shift_remove(PLUGIN),
            false => plugins.insert(PLUGIN.into(), Value::Mapping(own)),
        };
        match plugins.is_empty() {
            true => drop(self.fields.shift_remove("plugins")),
            false => self.put("plugins", Value::Mapping(plugins)),
        }
    }
}

/// The layouts of a PROJECT file: a list, or in early ones a single text.
pub fn layouts(field: Option<&Value>) -> Vec<&str> {
    match field {
        Some(Value::Sequence(layouts)) => layouts.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(layout)) => vec![layout.as_str()],
        _ => vec![],
    }
}

/// Whether a layout is that of operator-sdk's helm plugin.
pub fn is_helm(layout: &str) -> bool {
    let version = layout.strip_prefix("helm.sdk.operatorframework.io/");
    version.is_some_and(|version| version == "v1" || version.starts_with("v1-"))
}

/// By name, as kubebuilder writes fields.
fn sort(fields: &mut Mapping) {
    let mut all: Vec<(Value, Value)> = std::mem::take(fields).into_iter().collect();
    all.sort_by(|(a, _), (b, _)| a.as_str().cmp(&b.as_str()));
    *fields = all.into_iter().collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(version: &str) -> Resource {
        Resource { group: "charts".into(), api: Api::new("charts.example.com", version, "Nginx", true).unwrap() }
    }

    fn origin() -> Origin {
        Origin { chart: "nginx".into(), source: "starter".into(), version: "0.1.0".into(), digest: "abc".into() }
    }

    #[test]
    fn an_api_is_written_as_kubebuilder_does() {
        let mut project = Project::new("shop", "example.com");
        project.add(&resource("v1alpha1"));
        let text = project.text().unwrap();
        let expected = "domain: example.com\nlayout:\n- helm.sdk.operatorframework.io/v1\nprojectName: shop\nresources:\n- api:\n    crdVersion: v1\n    namespaced: true\n  domain: example.com\n  group: charts\n  kind: Nginx\n  version: v1alpha1\nversion: '3'\n";
        assert_eq!(text, format!("{HEAD}{expected}"));
        assert_eq!(Project::parse(&text).unwrap().resources().unwrap(), [resource("v1alpha1")]);
    }

    #[test]
    fn what_comes_and_goes_leaves_nothing_and_what_others_wrote_stays() {
        let before = "# theirs\ndomain: example.com\nlayout:\n- helm.sdk.operatorframework.io/v1\nplugins:\n  scorecard.sdk.operatorframework.io/v2: {}\nprojectName: shop\nversion: '3'\n";
        let mut project = Project::parse(before).unwrap();
        project.add(&resource("v1"));
        project.add(&resource("v2"));
        project.set_origin(&origin());
        let mut again = Project::parse(&project.text().unwrap()).unwrap();
        assert_eq!((again.resources().unwrap().len(), again.origin("nginx")), (2, Some(origin())));
        again.remove(&resource("v1"));
        assert_eq!(again.resources().unwrap(), [resource("v2")]);
        again.remove(&resource("v2"));
        again.forget_origin("nginx");
        assert_eq!(again.text().unwrap(), before);
    }

    #[test]
    fn a_project_that_had_an_api_is_as_it_was_before() {
        let mut project = Project::new("shop", "example.com");
        let before = project.text().unwrap();
        project.add(&resource("v1"));
        project.set_origin(&origin());
        project.forget_origin("nginx");
        project.remove(&resource("v1"));
        assert_eq!(project.text().unwrap(), before);
    }

    #[test]
    fn a_plural_of_its_own_and_a_kind_without_namespaces_are_kept() {
        let mut wanted = resource("v1");
        (wanted.api.plural, wanted.api.is_namespaced) = ("nginxen".into(), false);
        let mut project = Project::new("shop", "example.com");
        project.add(&wanted);
        assert_eq!(Project::parse(&project.text().unwrap()).unwrap().resources().unwrap(), [wanted]);
    }

    #[test]
    fn a_project_of_the_first_releases_is_read_and_becomes_one_of_version_3_with_the_next_api() {
        let before = "domain: example.com\nlayout: helm.sdk.operatorframework.io/v1\nprojectName: shop\nresources:\n- crdVersion: v1\n  group: charts\n  kind: Nginx\n  version: v1\nversion: 3-alpha\n";
        let mut project = Project::parse(before).unwrap();
        assert_eq!((project.resources().unwrap(), project.text().unwrap()), (vec![resource("v1")], before.to_owned()));
        project.add(&resource("v2"));
        let mut expected = Project { head: String::new(), ..Project::new("shop", "example.com") };
        expected.add(&resource("v1"));
        expected.add(&resource("v2"));
        assert_eq!(project.text().unwrap(), expected.text().unwrap());
    }

    #[test]
    fn another_kind_of_project_is_refused() {
        for text in [
            "",
            "- a",
            "version: '2'\nlayout: [helm.sdk.operatorframework.io/v1]",
            "version: '3'\nlayout: [go.kubebuilder.io/v4]",
        ] {
            assert!(matches!(Project::parse(text), Err(ScaffoldError::ProjectFile(_))), "{text}");
        }
    }
}
