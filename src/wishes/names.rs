//! Names of annotations that nobody knows. Pure.
//!
//! Only names under the two prefixes are judged: whoever writes one means us. What another operator or tool writes there by
//! design, on objects and not on custom resources, is known too.

use super::*;
use crate::drift::DRIFT;
use crate::drift::rules::IGNORE_FIELDS;
use crate::watches::suggest;

const PREFIXES: [&str; 2] = ["chartwright.dev/", "helm.sdk.operatorframework.io/"];

const KNOWN: [&str; 27] = [
    ADOPT,
    ADOPTED_DELETION_POLICY,
    DELETION_POLICY,
    DRIFT,
    IGNORE_FIELDS,
    MAX_HISTORY,
    ON_FAILURE,
    PAUSED,
    PROGRESS_DEADLINE,
    RENDER_ANEW,
    REQUESTED_AT,
    RETRIES,
    ROLLBACK_TO,
    ROTATE,
    VALUES_FROM,
    hooks::TIMEOUT,
    INSTALL_DESCRIPTION,
    INSTALL_DISABLE_HOOKS,
    RECONCILE_PERIOD,
    ROLLBACK_DISABLE_HOOKS,
    ROLLBACK_FORCE,
    UNINSTALL_DESCRIPTION,
    UNINSTALL_DISABLE_HOOKS,
    UNINSTALL_WAIT,
    UPGRADE_DESCRIPTION,
    UPGRADE_DISABLE_HOOKS,
    UPGRADE_FORCE,
];

/// A sentence about a name that looks like one of ours and is none.
pub(super) fn problem(key: &str) -> Option<String> {
    let name = PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix))?;
    if KNOWN.contains(&key) {
        return None;
    }
    // The prefix may be the wrong one of the two.
    let meant = suggest::nearest(name, KNOWN.iter().map(|known| bare(known)));
    let meant = meant.and_then(|meant| KNOWN.iter().find(|known| bare(known) == meant));
    let hint = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    Some(format!("the annotation {key} is not known and is ignored{hint}"))
}

/// A sentence about a rotation of a value that the watch does not generate.
pub(super) fn no_generated_value(key: &str, generators: &[Generator]) -> Option<String> {
    let name = key.strip_prefix(ROTATE)?.strip_prefix('-')?;
    if generators.iter().any(|it| it.name == name) {
        return None;
    }
    let known: Vec<&str> = generators.iter().map(|it| it.name.as_str()).collect();
    let hint = match known.is_empty() {
        true => "watches.yaml generates no values for this kind".to_owned(),
        false => format!("watches.yaml generates {}", known.join(", ")),
    };
    Some(format!("the annotation {key} names no generated value and is ignored; {hint}"))
}

fn bare(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, bare)| bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_told_with_the_nearest_one() {
        let cases = [
            ("chartwright.dev/pasued", "; did you mean chartwright.dev/paused?"),
            ("chartwright.dev/upgrade-force", "; did you mean helm.sdk.operatorframework.io/upgrade-force?"),
            ("helm.sdk.operatorframework.io/Reconcile-Period", "reconcile-period?"),
            (
                "helm.sdk.operatorframework.io/colour",
                "helm.sdk.operatorframework.io/colour is not known and is ignored",
            ),
        ];
        for (key, expected) in cases {
            let told = problem(key).unwrap();
            assert!(told.ends_with(expected), "{told}");
        }
    }

    #[test]
    fn known_names_and_those_of_others_are_no_problem() {
        for key in
            KNOWN.into_iter().chain(["kubectl.kubernetes.io/last-applied-configuration", "paused", "x.dev/paused"])
        {
            assert_eq!(problem(key), None);
        }
    }
}
