//! The kinds of Kubernetes itself: how each is reached, and whether it has a namespace, for whoever has no cluster to ask.
//!
//! A kind that is new in a later Kubernetes may be missing. In a group that is listed here it is believed to have a namespace.

use kube::core::GroupVersionKind;

use Scope::{Cluster, Namespaced};

/// Where objects of a kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// A kind, its plural and its scope.
type Entry = (&'static str, &'static str, Scope);

/// By group. Where two groups have a kind of one name, the one that charts mean comes first.
const KUBERNETES: [(&str, &[Entry]); 23] = [
    (
        "",
        &[
            ("Binding", "bindings", Namespaced),
            ("ComponentStatus", "componentstatuses", Cluster),
            ("ConfigMap", "configmaps", Namespaced),
            ("Endpoints", "endpoints", Namespaced),
            ("Event", "events", Namespaced),
            ("LimitRange", "limitranges", Namespaced),
            ("Namespace", "namespaces", Cluster),
            ("Node", "nodes", Cluster),
            ("PersistentVolume", "persistentvolumes", Cluster),
            ("PersistentVolumeClaim", "persistentvolumeclaims", Namespaced),
            ("Pod", "pods", Namespaced),
            ("PodTemplate", "podtemplates", Namespaced),
            ("ReplicationController", "replicationcontrollers", Namespaced),
            ("ResourceQuota", "resourcequotas", Namespaced),
            ("Secret", "secrets", Namespaced),
            ("Service", "services", Namespaced),
            ("ServiceAccount", "serviceaccounts", Namespaced),
        ],
    ),
    (
        "apps",
        &[
            ("ControllerRevision", "controllerrevisions", Namespaced),
            ("DaemonSet", "daemonsets", Namespaced),
            ("Deployment", "deployments", Namespaced),
            ("ReplicaSet", "replicasets", Namespaced),
            ("StatefulSet", "statefulsets", Namespaced),
        ],
    ),
    ("batch", &[("CronJob", "cronjobs", Namespaced), ("Job", "jobs", Namespaced)]),
    ("autoscaling", &[("HorizontalPodAutoscaler", "horizontalpodautoscalers", Namespaced)]),
    (
        "networking.k8s.io",
        &[
            ("IPAddress", "ipaddresses", Cluster),
            ("Ingress", "ingresses", Namespaced),
            ("IngressClass", "ingressclasses", Cluster),
            ("NetworkPolicy", "networkpolicies", Namespaced),
            ("ServiceCIDR", "servicecidrs", Cluster),
        ],
    ),
    (
        "policy",
        &[
            ("PodDisruptionBudget", "poddisruptionbudgets", Namespaced),
            ("PodSecurityPolicy", "podsecuritypolicies", Cluster),
        ],
    ),
    (
        "rbac.authorization.k8s.io",
        &[
            ("ClusterRole", "clusterroles", Cluster),
            ("ClusterRoleBinding", "clusterrolebindings", Cluster),
            ("Role", "roles", Namespaced),
            ("RoleBinding", "rolebindings", Namespaced),
        ],
    ),
    ("apiextensions.k8s.io", &[("CustomResourceDefinition", "customresourcedefinitions", Cluster)]),
    ("apiregistration.k8s.io", &[("APIService", "apiservices", Cluster)]),
    (
        "admissionregistration.k8s.io",
        &[
            ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", Cluster),
            ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", Cluster),
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", Cluster),
            ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", Cluster),
            ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", Cluster),
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", Cluster),
        ],
    ),
    (
        "storage.k8s.io",
        &[
            ("CSIDriver", "csidrivers", Cluster),
            ("CSINode", "csinodes", Cluster),
            ("CSIStorageCapacity", "csistoragecapacities", Namespaced),
            ("StorageClass", "storageclasses", Cluster),
            ("VolumeAttachment", "volumeattachments", Cluster),
            ("VolumeAttributesClass", "volumeattributesclasses", Cluster),
        ],
    ),
    ("scheduling.k8s.io", &[("PriorityClass", "priorityclasses", Cluster)]),
    ("node.k8s.io", &[("RuntimeClass", "runtimeclasses", Cluster)]),
    ("coordination.k8s.io", &[("Lease", "leases", Namespaced), ("LeaseCandidate", "leasecandidates", Namespaced)]),
    ("discovery.k8s.io", &[("EndpointSlice", "endpointslices", Namespaced)]),
    ("events.k8s.io", &[("Event", "events", Namespaced)]),
    (
        "certificates.k8s.io",
        &[
            ("CertificateSigningRequest", "certificatesigningrequests", Cluster),
            ("ClusterTrustBundle", "clustertrustbundles", Cluster),
            ("PodCertificateRequest", "podcertificaterequests", Namespaced),
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &[
            ("FlowSchema", "flowschemas", Cluster),
            ("PriorityLevelConfiguration", "prioritylevelconfigurations", Cluster),
        ],
    ),
    ("internal.apiserver.k8s.io", &[("StorageVersion", "storageversions", Cluster)]),
    (
        "resource.k8s.io",
        &[
            ("DeviceClass", "deviceclasses", Cluster),
            ("DeviceTaintRule", "devicetaintrules", Cluster),
            ("ResourceClaim", "resourceclaims", Namespaced),
            ("ResourceClaimTemplate", "resourceclaimtemplates", Namespaced),
            ("ResourceSlice", "resourceslices", Cluster),
        ],
    ),
    ("storagemigration.k8s.io", &[("StorageVersionMigration", "storageversionmigrations", Cluster)]),
    (
        "authentication.k8s.io",
        &[("SelfSubjectReview", "selfsubjectreviews", Cluster), ("TokenReview", "tokenreviews", Cluster)],
    ),
    (
        "authorization.k8s.io",
        &[
            ("LocalSubjectAccessReview", "localsubjectaccessreviews", Namespaced),
            ("SelfSubjectAccessReview", "selfsubjectaccessreviews", Cluster),
            ("SelfSubjectRulesReview", "selfsubjectrulesreviews", Cluster),
            ("SubjectAccessReview", "subjectaccessreviews", Cluster),
        ],
    ),
];

/// None for a kind that is not of Kubernetes itself.
pub fn is_namespaced(gvk: &GroupVersionKind) -> Option<bool> {
    let (_, kinds) = KUBERNETES.iter().find(|(group, _)| *group == gvk.group)?;
    let entry = kinds.iter().find(|(kind, ..)| *kind == gvk.kind);
    Some(entry.is_none_or(|(_, _, scope)| *scope == Namespaced))
}

/// How a kind is reached, and where its objects are. None for one that is not listed here.
pub fn resource(group: &str, kind: &str) -> Option<(&'static str, Scope)> {
    let (_, kinds) = KUBERNETES.iter().find(|(known, _)| *known == group)?;
    kinds.iter().find(|(known, ..)| *known == kind).map(|(_, plural, scope)| (*plural, *scope))
}

/// The group that charts mean by the name of a kind alone.
pub fn group_of(kind: &str) -> Option<&'static str> {
    let has = |kinds: &[Entry]| kinds.iter().any(|(known, ..)| *known == kind);
    KUBERNETES.iter().find(|(_, kinds)| has(kinds)).map(|(group, _)| *group)
}
