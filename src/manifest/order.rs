//! The order in which Helm installs kinds.

/// Helm 4's list; Helm 3's is the same without the webhook configurations at the end, which it has among the unknown
/// kinds and thereby at the end too.
const INSTALL: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Sorts before every kind of a higher rank; unknown kinds come last, alphabetically.
pub fn install_rank(kind: &str) -> (usize, &str) {
    match INSTALL.iter().position(|known| *known == kind) {
        Some(rank) => (rank, ""),
        None => (INSTALL.len(), kind),
    }
}
