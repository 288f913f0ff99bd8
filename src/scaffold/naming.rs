//! What things are called when nobody says so: the kind after the chart, the starter chart after the kind, the project after its
//! directory.

use std::path::Path;

use super::api::is_label;
use super::error::ScaffoldError;

/// The longest name that is made with the project's is `<project>-controller-manager-metrics-service`, and a Service's has 63 characters.
const LONGEST_PROJECT: usize = 63 - "-controller-manager-metrics-service".len();

/// `cert-manager` becomes `CertManager`. Whether that is a kind is for [`super::api::Api`] to say.
pub fn kind_of_chart(chart: &str) -> String {
    let words = chart.split(|letter: char| !letter.is_ascii_alphanumeric());
    words
        .map(|word| {
            word.chars().take(1).map(|first| first.to_ascii_uppercase()).chain(word.chars().skip(1)).collect::<String>()
        })
        .collect()
}

/// `CertManager` becomes `certmanager`.
pub fn chart_of_kind(kind: &str) -> String {
    kind.to_ascii_lowercase()
}

/// The directory's name, in small letters.
pub fn project_of_directory(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// # Errors
/// Names of objects are made with it, which the API server would refuse.
pub fn check_project(name: &str) -> Result<(), ScaffoldError> {
    match is_label(name) && name.len() <= LONGEST_PROJECT {
        true => Ok(()),
        false => Err(ScaffoldError::ProjectName(name.into(), LONGEST_PROJECT)),
    }
}

/// # Errors
/// No group of an API can end with it.
pub fn check_domain(domain: &str) -> Result<(), ScaffoldError> {
    match domain.split('.').all(is_label) && domain.len() <= 200 {
        true => Ok(()),
        false => Err(ScaffoldError::Domain(domain.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_its_kind_in_camel_case() {
        let names =
            [("nginx", "Nginx"), ("cert-manager", "CertManager"), ("my_app.v2", "MyAppV2"), ("wordPress", "WordPress")];
        for (chart, kind) in names {
            assert_eq!(kind_of_chart(chart), kind);
        }
        assert_eq!(chart_of_kind("CertManager"), "certmanager");
    }

    #[test]
    fn a_project_is_called_like_its_directory_unless_no_object_could_be() {
        assert_eq!(project_of_directory(Path::new("/home/me/Shop-Operator")), "shop-operator");
        assert!(check_project("shop-operator").is_ok() && check_project(&"a".repeat(28)).is_ok());
        for wrong in ["", "Shop", "shop_operator", "-shop", &"a".repeat(29)] {
            assert!(check_project(wrong).is_err(), "{wrong}");
        }
        assert!(check_domain("my.domain").is_ok() && check_domain("local").is_ok());
        for wrong in ["", "My.domain", "a..b", "a b", ".b"] {
            assert!(check_domain(wrong).is_err(), "{wrong}");
        }
    }
}
