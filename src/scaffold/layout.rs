//! The files of a project, and what they are called. The same tree as operator-sdk's.

use super::api::Api;
use super::project::Project;
use super::template::fill;

pub const PROJECT: &str = "PROJECT";
pub const WATCHES: &str = "watches.yaml";
pub const CHARTS: &str = "helm-charts";
pub const ROLE: &str = "config/rbac/role.yaml";

/// A list of files that grows with the APIs.
pub struct Register {
    pub file: &'static str,
    pub marker: &'static str,
    pub template: &'static str,
    /// Whether it has more in it than APIs: kustomize refuses an empty list.
    pub stays: bool,
}

pub const DEFINITIONS: Register = Register {
    file: "config/crd/kustomization.yaml",
    marker: "+kubebuilder:scaffold:crdkustomizeresource",
    template: include_str!("templates/project/config/crd/kustomization.yaml"),
    stays: false,
};
pub const SAMPLES: Register = Register {
    file: "config/samples/kustomization.yaml",
    marker: "+kubebuilder:scaffold:manifestskustomizesamples",
    template: include_str!("templates/project/config/samples/kustomization.yaml"),
    stays: false,
};
pub const KIND_ROLES: Register = Register {
    file: "config/rbac/kustomization.yaml",
    marker: "+kubebuilder:scaffold:kindroles",
    template: include_str!("templates/project/config/rbac/kustomization.yaml"),
    stays: true,
};

/// Files that belong to this program, not to an API. config/crd and config/samples come with the first API: kustomize refuses an empty
/// list.
macro_rules! templates {
    ($($path:literal = $file:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("templates/project/", $file)))),*]
    };
}

/// The part of a project's Makefile that the one of this repository includes.
const SHARED_TARGETS: &str = include_str!("templates/project/shared.mk");

pub const README: &str = "README.md";

const FILES: &[(&str, &str)] = templates! {
    "README.md" = "README.md",
    "Makefile" = "Makefile",
    "Dockerfile" = "Dockerfile",
    ".gitignore" = "gitignore",
    ".dockerignore" = "dockerignore",
    "watches.yaml" = "watches.yaml",
    "config/default/kustomization.yaml" = "config/default/kustomization.yaml",
    "config/default/manager_metrics_patch.yaml" = "config/default/manager_metrics_patch.yaml",
    "config/default/metrics_service.yaml" = "config/default/metrics_service.yaml",
    "config/manager/kustomization.yaml" = "config/manager/kustomization.yaml",
    "config/manager/manager.yaml" = "config/manager/manager.yaml",
    "config/manifests/kustomization.yaml" = "config/manifests/kustomization.yaml",
    "config/network-policy/kustomization.yaml" = "config/network-policy/kustomization.yaml",
    "config/network-policy/allow-metrics-traffic.yaml" = "config/network-policy/allow-metrics-traffic.yaml",
    "config/prometheus/kustomization.yaml" = "config/prometheus/kustomization.yaml",
    "config/prometheus/monitor.yaml" = "config/prometheus/monitor.yaml",
    "config/prometheus/alerts.yaml" = "config/prometheus/alerts.yaml",
    "config/rbac/kustomization.yaml" = "config/rbac/kustomization.yaml",
    "config/rbac/service_account.yaml" = "config/rbac/service_account.yaml",
    "config/rbac/role_binding.yaml" = "config/rbac/role_binding.yaml",
    "config/rbac/leader_election_role.yaml" = "config/rbac/leader_election_role.yaml",
    "config/rbac/leader_election_role_binding.yaml" = "config/rbac/leader_election_role_binding.yaml",
    "config/rbac/metrics_auth_role.yaml" = "config/rbac/metrics_auth_role.yaml",
    "config/rbac/metrics_auth_role_binding.yaml" = "config/rbac/metrics_auth_role_binding.yaml",
    "config/rbac/metrics_reader_role.yaml" = "config/rbac/metrics_reader_role.yaml",
    "config/scorecard/kustomization.yaml" = "config/scorecard/kustomization.yaml",
    "config/scorecard/bases/config.yaml" = "config/scorecard/bases/config.yaml",
    "config/scorecard/patches/basic.config.yaml" = "config/scorecard/patches/basic.config.yaml",
    "config/scorecard/patches/olm.config.yaml" = "config/scorecard/patches/olm.config.yaml",
};

/// The files of a project without any API. What follows from its APIs is not among them.
pub fn files(project: &Project) -> Vec<(&'static str, String)> {
    let values = [
        ("shared", SHARED_TARGETS.trim_end()),
        ("project", project.name()),
        ("domain", project.domain()),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    FILES.iter().map(|(path, template)| (*path, fill(template, &values))).collect()
}

/// Whether `create api` puts lines into a file.
pub fn grows(path: &str) -> bool {
    path == WATCHES || path == KIND_ROLES.file
}

/// Below config/crd, as its kustomization names it.
pub fn definition(api: &Api) -> String {
    format!("bases/{}_{}.yaml", api.group, api.plural)
}

/// Below config/samples. `group` is without the domain.
pub fn sample(group: &str, api: &Api) -> String {
    [group, &api.version, &api.singular].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
        + ".yaml"
}

/// The list of all values beside a sample, which no kustomization names.
pub const FULL_SAMPLES: &str = "config/samples/full";

/// Below config/rbac. `role` is admin, editor or viewer.
pub fn kind_role(api: &Api, role: &str) -> String {
    format!("{}_{role}_role.yaml", api.singular)
}

const STARTER: &[(&str, &str)] = &[
    (".helmignore", include_str!("templates/starter/helmignore")),
    ("Chart.yaml", include_str!("templates/starter/Chart.yaml")),
    ("values.yaml", include_str!("templates/starter/values.yaml")),
    ("values.schema.json", include_str!("templates/starter/values.schema.json")),
    ("templates/_helpers.tpl", include_str!("templates/starter/templates/_helpers.tpl")),
    ("templates/deployment.yaml", include_str!("templates/starter/templates/deployment.yaml")),
    ("templates/hpa.yaml", include_str!("templates/starter/templates/hpa.yaml")),
    ("templates/ingress.yaml", include_str!("templates/starter/templates/ingress.yaml")),
    ("templates/NOTES.txt", include_str!("templates/starter/templates/NOTES.txt")),
    ("templates/service.yaml", include_str!("templates/starter/templates/service.yaml")),
    ("templates/serviceaccount.yaml", include_str!("templates/starter/templates/serviceaccount.yaml")),
    ("templates/tests/answers.yaml", include_str!("templates/starter/templates/tests/answers.yaml")),
];

/// The files of a chart to start from.
pub fn starter(chart: &str) -> Vec<(&'static str, String)> {
    STARTER.iter().map(|(path, template)| (*path, fill(template, &[("chart", chart)]))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// `@name@`, which an image's digest behind its repository is not.
    fn placeholder(text: &str) -> Option<&str> {
        let parts: Vec<&str> = text.split('@').collect();
        let is_name = |part: &&&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
        parts.get(1..parts.len().saturating_sub(1)).unwrap_or_default().iter().find(is_name).copied()
    }

    #[test]
    fn every_name_in_a_template_is_given() {
        let files = files(&Project::new("shop", "example.com"));
        for (path, text) in files.into_iter().chain(starter("web")) {
            assert_eq!(placeholder(&text), None, "{path}");
        }
    }

    /// This repository is an operator project too. What is better here is better for all.
    #[test]
    fn the_manifests_of_this_repository_are_those_of_a_project() {
        for (path, text) in files(&Project::new("chartwright", "chartwright.dev")) {
            let here = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            let is_alike = path.starts_with("config/") && !grows(path) && here.exists();
            assert!(!is_alike || std::fs::read_to_string(here).unwrap() == text, "{path} and its template differ");
        }
    }

    /// The same names with the same recipes: there is one text of them.
    #[test]
    fn the_makefile_of_this_repository_includes_the_shared_targets_of_a_project() {
        let here = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Makefile")).unwrap();
        let files = files(&Project::new("shop", "example.com"));
        let (_, project) = files.iter().find(|(path, _)| *path == "Makefile").unwrap();
        assert!(project.contains(SHARED_TARGETS), "{project}");
        assert!(here.contains("\ninclude src/scaffold/templates/project/shared.mk\n"), "{here}");
        let shared: Vec<&str> = SHARED_TARGETS.lines().filter_map(|line| line.strip_prefix(".PHONY: ")).collect();
        assert!(shared.len() > 6, "{shared:?}");
        for target in shared {
            assert!(!here.contains(&format!("\n{target}:")), "{target} has a recipe of its own in this repository");
        }
    }

    /// The operator keeps a quarter of its limit for itself, and leaves the rest to renders.
    #[test]
    fn the_alert_about_memory_fits_the_managers_limit() {
        let files = files(&Project::new("shop", "example.com"));
        let text = |wanted: &str| files.iter().find(|(path, _)| *path == wanted).unwrap().1.as_str();
        assert!(text("config/manager/manager.yaml").contains("          limits:\n            memory: 1Gi\n"));
        let alerts = text("config/prometheus/alerts.yaml");
        assert!(
            alerts.contains("> 256 * 1024 * 1024")
                && alerts.contains("a quarter of its limit")
                && alerts.contains("1Gi")
        );
    }

    #[test]
    fn files_are_called_as_operator_sdk_calls_them() {
        let api = Api::new("charts.example.com", "v1alpha1", "Nginx", true).unwrap();
        assert_eq!(definition(&api), "bases/charts.example.com_nginxes.yaml");
        assert_eq!(sample("charts", &api), "charts_v1alpha1_nginx.yaml");
        assert_eq!(kind_role(&api, "viewer"), "nginx_viewer_role.yaml");
    }
}
