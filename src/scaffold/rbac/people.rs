//! Roles for people: who may own, edit or look at the custom resources of a kind. They are bound by whoever runs the cluster.
//!
//! Pure.

use crate::scaffold::api::Api;
use crate::scaffold::template::fill;

const ROLES: [(&str, &str); 3] = [
    ("admin", include_str!("admin_role.yaml")),
    ("editor", include_str!("editor_role.yaml")),
    ("viewer", include_str!("viewer_role.yaml")),
];

/// The files of config/rbac for people, with their names: `nginx_admin_role.yaml`. `project` is for labels.
pub fn roles(api: &Api, project: &str) -> [(String, String); 3] {
    let Api { group, kind, plural, singular, .. } = api;
    let values = [("project", project), ("singular", singular), ("plural", plural), ("group", group), ("kind", kind)];
    ROLES.map(|(name, text)| (format!("{singular}_{name}_role.yaml"), fill(text, &values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repositorys_roles_for_people_are_what_is_made() {
        let api = Api::new("demo.chartwright.dev", "v1alpha1", "Nginx", true).unwrap();
        for (name, text) in roles(&api, "chartwright") {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/rbac/").to_owned() + &name;
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{path}");
        }
    }

    #[test]
    fn each_may_do_what_its_name_says() {
        let api = Api::new("charts.example.com", "v1", "Policy", true).unwrap();
        let verbs = roles(&api, "shop").map(|(name, text)| {
            let role = crate::yaml::parse(&text).unwrap();
            assert_eq!(role["rules"][0]["resources"][0], "policies", "{name}");
            role["rules"][0]["verbs"].as_array().unwrap().len()
        });
        assert_eq!(verbs, [1, 7, 3]);
    }
}
