//! Which Lease it is, and how patient everybody is. Wrong settings are refused at the start.

use std::time::Duration;

use super::candidate::Pace;

/// Where a pod finds the name of its namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    pub pace: Pace,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(
        "cannot tell in which namespace the Lease for leader election is, since this is not a pod; set --leader-election-namespace"
    )]
    NoNamespace,
    #[error(
        "a Lease of {lease:?} that is renewed every {retry:?} and given up after {renew_deadline:?} can be held by two at once; each must be clearly longer than the next: --leader-elect-lease-duration (in whole seconds), --leader-elect-renew-deadline, --leader-elect-retry-period"
    )]
    Pace { lease: Duration, renew_deadline: Duration, retry: Duration },
}

impl Settings {
    /// # Arguments
    /// `id` and `namespace`: as a person asks for. `group`: of the first watch, for a name that the replicas agree on.
    pub fn new(id: Option<&str>, namespace: Option<&str>, group: &str, pace: Pace) -> Result<Self, SettingsError> {
        check(pace)?;
        let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let set = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let own = || std::fs::read_to_string(OWN_NAMESPACE).ok().map(|text| text.trim().to_owned());
        let namespace = given(namespace).or_else(|| set("POD_NAMESPACE")).or_else(own);
        Ok(Settings {
            namespace: namespace.ok_or(SettingsError::NoNamespace)?,
            name: given(id).unwrap_or_else(|| default_name(group)),
            pace,
        })
    }
}

/// Of the API group, and of nothing that another version of the same project may change.
fn default_name(group: &str) -> String {
    if group.is_empty() { "chartwright".to_owned() } else { format!("chartwright.{group}") }
}

fn check(pace: Pace) -> Result<(), SettingsError> {
    let Pace { lease, renew_deadline, retry } = pace;
    let is_whole = lease.as_secs() > 0 && lease.subsec_nanos() == 0;
    // As client-go has it, a renewal may come late once.
    let is_sound = is_whole && renew_deadline <= pace.hold() && retry.mul_f32(1.2) < renew_deadline && !retry.is_zero();
    if is_sound { Ok(()) } else { Err(SettingsError::Pace { lease, renew_deadline, retry }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(lease: u64, renew_deadline: u64, retry: u64) -> Pace {
        let [lease, renew_deadline, retry] = [lease, renew_deadline, retry].map(Duration::from_millis);
        Pace { lease, renew_deadline, retry }
    }

    #[test]
    fn a_pace_by_which_two_could_work_at_once_is_refused() {
        assert!(check(pace(15_000, 10_000, 2_000)).is_ok());
        assert!(check(pace(1_000, 700, 100)).is_ok());
        for wrong in [(15_000, 15_000, 2_000), (15_000, 14_000, 2_000), (15_000, 2_000, 2_000), (1_500, 700, 100)] {
            assert!(check(pace(wrong.0, wrong.1, wrong.2)).is_err(), "{wrong:?}");
        }
        assert!(check(pace(0, 0, 0)).is_err());
        assert!(check(pace(15_000, 10_000, 0)).is_err());
    }

    #[test]
    fn the_lease_is_named_by_the_group_unless_somebody_names_it() {
        let named = |id, group| Settings::new(id, Some("here"), group, pace(15_000, 10_000, 2_000)).unwrap().name;
        assert_eq!(named(None, "demo.example.com"), "chartwright.demo.example.com");
        assert_eq!(named(Some(""), ""), "chartwright");
        assert_eq!(named(Some("mine"), "demo.example.com"), "mine");
    }
}
