//! Which workloads a pod may come from, by its name as Kubernetes makes it. Pure.

/// What a name that the API server generates ends with.
const RANDOM: usize = 5;
/// The API server cuts what it puts the random characters behind.
const LONGEST_BASE: usize = 63 - RANDOM;

/// How a workload names its pods.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    Itself,
    /// `<name>-<number>`
    Numbered,
    /// `<name>-<random>`
    Direct,
    /// `<name>-<hash>-<random>`: another object is in between.
    Indirect,
}

const WORKLOADS: [(&str, &str, Naming); 8] = [
    ("", "Pod", Naming::Itself),
    ("", "ReplicationController", Naming::Direct),
    ("apps", "ReplicaSet", Naming::Direct),
    ("apps", "DaemonSet", Naming::Direct),
    ("apps", "StatefulSet", Naming::Numbered),
    ("apps", "Deployment", Naming::Indirect),
    ("batch", "Job", Naming::Direct),
    ("batch", "CronJob", Naming::Indirect),
];

/// Whether a workload of this name may have made a pod. Without a group or a kind it may be of any.
pub fn may_have_made(pod: &str, group: Option<&str>, kind: Option<&str>, name: &str) -> bool {
    let is_meant = |known: &str, wanted: Option<&str>| wanted.is_none_or(|wanted| wanted == known);
    WORKLOADS.iter().filter(|(known, as_kind, _)| is_meant(known, group) && is_meant(as_kind, kind)).any(
        |(_, _, naming)| match naming {
            Naming::Itself => pod == name,
            Naming::Numbered => is_numbered(pod, name),
            Naming::Direct => base(pod) == Some(cut(&format!("{name}-"))),
            Naming::Indirect => base(pod).is_some_and(|base| is_indirect(base, &format!("{name}-"))),
        },
    )
}

/// What stands before the random characters.
fn base(pod: &str) -> Option<&str> {
    pod.get(..pod.len().checked_sub(RANDOM)?)
}

fn cut(text: &str) -> &str {
    text.get(..LONGEST_BASE).unwrap_or(text)
}

fn is_numbered(pod: &str, name: &str) -> bool {
    let number = pod.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the base is `<name>-<hash>-`, or as much of it as is left where it was cut.
fn is_indirect(base: &str, prefix: &str) -> bool {
    let is_cut = base.len() == LONGEST_BASE;
    let Some(rest) = base.strip_prefix(prefix) else { return is_cut && prefix.starts_with(base) };
    let hash = rest.strip_suffix('-');
    (hash.is_some_and(|hash| !hash.is_empty()) || is_cut) && !hash.unwrap_or(rest).contains('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pod: &str, kind: &str, name: &str) -> bool {
        may_have_made(pod, None, Some(kind), name)
    }

    /// As the API server names a pod of a Deployment.
    fn pod_of(deployment: &str) -> String {
        format!("{}x2x7k", cut(&format!("{deployment}-5d8f7c9b6d-")))
    }

    #[test]
    fn a_pod_is_traced_however_long_the_name_of_its_deployment_is() {
        for length in 1..=63 {
            let name = "op-manager-controller-of-a-project-with-a-name-that-is-really-too-long"[..length]
                .trim_end_matches('-');
            let pod = pod_of(name);
            assert!(made(&pod, "Deployment", name), "{name} {pod}");
            assert!(made(&pod, "ReplicaSet", &format!("{name}-5d8f7c9b6d")), "{name} {pod}");
            assert!(!made(&pod, "Deployment", &format!("{name}x")) || pod.len() == 63, "{name} {pod}");
        }
    }

    #[test]
    fn names_that_only_begin_alike_are_others() {
        let pod = pod_of("op-manager");
        for other in ["op", "op-manage", "op-manager-2", "op-manager-5d8f7c9b6d", "manager"] {
            assert!(!made(&pod, "Deployment", other), "{other}");
        }
        assert!(
            made("op-manager-0", "StatefulSet", "op-manager") && !made("op-manager-x", "StatefulSet", "op-manager")
        );
        assert!(made("op-7xk2p", "DaemonSet", "op") && made("op", "Pod", "op"));
        assert!(!made("op", "Deployment", "op") && !made("", "Deployment", ""));
    }

    #[test]
    fn what_is_not_said_may_be_anything() {
        let pod = pod_of("op-manager");
        assert!(may_have_made(&pod, None, None, "op-manager"));
        assert!(!may_have_made(&pod, None, None, "web"));
        assert!(!may_have_made(&pod, Some(""), Some("Deployment"), "op-manager"));
    }
}
