//! How a kind is reached, and whether it has a namespace, without a cluster to ask.
//!
//! Pure. Asked in this order: the chart's own definitions, Kubernetes' kinds, kinds that are often there, and the rules of English.

use kube::core::GroupVersionKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::discovery::kinds_of_crd;
use crate::reach::scopes::{self, Scope};
use crate::scaffold::api;

/// Where objects of a kind are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub plural: String,
    pub is_namespaced: bool,
    /// Whether plural and scope are only what most kinds would have.
    pub is_guess: bool,
}

/// The group and the name of a kind.
pub type GroupKind = (String, String);

/// A kind that charts often use, of a project that is often there: group, version, kind, plural, scope.
type Entry = (&'static str, &'static str, &'static str, &'static str, Scope);

use Scope::{Cluster, Namespaced};

/// Charts ask for these before they make them.
const OFTEN_THERE: [Entry; 48] = [
    ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", Namespaced),
    ("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors", Namespaced),
    ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", Namespaced),
    ("monitoring.coreos.com", "v1", "Probe", "probes", Namespaced),
    ("monitoring.coreos.com", "v1", "Prometheus", "prometheuses", Namespaced),
    ("monitoring.coreos.com", "v1", "Alertmanager", "alertmanagers", Namespaced),
    ("monitoring.coreos.com", "v1alpha1", "AlertmanagerConfig", "alertmanagerconfigs", Namespaced),
    ("cert-manager.io", "v1", "Certificate", "certificates", Namespaced),
    ("cert-manager.io", "v1", "CertificateRequest", "certificaterequests", Namespaced),
    ("cert-manager.io", "v1", "Issuer", "issuers", Namespaced),
    ("cert-manager.io", "v1", "ClusterIssuer", "clusterissuers", Cluster),
    ("gateway.networking.k8s.io", "v1", "Gateway", "gateways", Namespaced),
    ("gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses", Cluster),
    ("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes", Namespaced),
    ("gateway.networking.k8s.io", "v1", "GRPCRoute", "grpcroutes", Namespaced),
    ("gateway.networking.k8s.io", "v1alpha2", "TCPRoute", "tcproutes", Namespaced),
    ("gateway.networking.k8s.io", "v1alpha2", "TLSRoute", "tlsroutes", Namespaced),
    ("gateway.networking.k8s.io", "v1alpha2", "UDPRoute", "udproutes", Namespaced),
    ("gateway.networking.k8s.io", "v1beta1", "ReferenceGrant", "referencegrants", Namespaced),
    ("route.openshift.io", "v1", "Route", "routes", Namespaced),
    ("security.openshift.io", "v1", "SecurityContextConstraints", "securitycontextconstraints", Cluster),
    ("image.openshift.io", "v1", "ImageStream", "imagestreams", Namespaced),
    ("console.openshift.io", "v1", "ConsoleLink", "consolelinks", Cluster),
    ("networking.istio.io", "v1", "VirtualService", "virtualservices", Namespaced),
    ("networking.istio.io", "v1", "DestinationRule", "destinationrules", Namespaced),
    ("networking.istio.io", "v1", "Gateway", "gateways", Namespaced),
    ("networking.istio.io", "v1", "ServiceEntry", "serviceentries", Namespaced),
    ("networking.istio.io", "v1", "Sidecar", "sidecars", Namespaced),
    ("security.istio.io", "v1", "AuthorizationPolicy", "authorizationpolicies", Namespaced),
    ("security.istio.io", "v1", "PeerAuthentication", "peerauthentications", Namespaced),
    ("traefik.io", "v1alpha1", "IngressRoute", "ingressroutes", Namespaced),
    ("traefik.io", "v1alpha1", "IngressRouteTCP", "ingressroutetcps", Namespaced),
    ("traefik.io", "v1alpha1", "IngressRouteUDP", "ingressrouteudps", Namespaced),
    ("traefik.io", "v1alpha1", "Middleware", "middlewares", Namespaced),
    ("traefik.io", "v1alpha1", "TLSOption", "tlsoptions", Namespaced),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", Namespaced),
    ("keda.sh", "v1alpha1", "ScaledJob", "scaledjobs", Namespaced),
    ("keda.sh", "v1alpha1", "TriggerAuthentication", "triggerauthentications", Namespaced),
    ("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers", Namespaced),
    ("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots", Namespaced),
    ("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass", "volumesnapshotclasses", Cluster),
    ("external-secrets.io", "v1", "ExternalSecret", "externalsecrets", Namespaced),
    ("external-secrets.io", "v1", "SecretStore", "secretstores", Namespaced),
    ("bitnami.com", "v1alpha1", "SealedSecret", "sealedsecrets", Namespaced),
    ("cilium.io", "v2", "CiliumNetworkPolicy", "ciliumnetworkpolicies", Namespaced),
    ("cilium.io", "v2", "CiliumClusterwideNetworkPolicy", "ciliumclusterwidenetworkpolicies", Cluster),
    ("externaldns.k8s.io", "v1alpha1", "DNSEndpoint", "dnsendpoints", Namespaced),
    ("argoproj.io", "v1alpha1", "Application", "applications", Namespaced),
];

/// What `.Capabilities.APIVersions` has beside Kubernetes' own kinds where all of these are there.
pub fn api_versions_often_there() -> Vec<String> {
    let mut all: Vec<String> = OFTEN_THERE
        .iter()
        .flat_map(|(group, version, kind, ..)| [format!("{group}/{version}"), format!("{group}/{version}/{kind}")])
        .collect();
    all.sort();
    all.dedup();
    all
}

/// What is known about kinds, with those that a chart defines.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kinds(Vec<(GroupKind, Place)>);

impl Kinds {
    /// Learns what a CustomResourceDefinition defines. Anything else teaches nothing.
    pub fn learn(&mut self, object: &Value) {
        for (gvk, kind) in kinds_of_crd(object) {
            let place = Place { plural: kind.resource.plural.clone(), is_namespaced: kind.namespaced, is_guess: false };
            let key = (gvk.group, gvk.kind);
            if !self.0.iter().any(|(known, _)| *known == key) {
                self.0.push((key, place));
            }
        }
    }

    /// Where objects of a kind are, as well as it is known.
    pub fn place(&self, group: &str, kind: &str) -> Place {
        self.known(group, kind).unwrap_or_else(|| Place {
            plural: api::plural(&kind.to_ascii_lowercase()),
            is_namespaced: true,
            is_guess: true,
        })
    }

    pub fn known(&self, group: &str, kind: &str) -> Option<Place> {
        let own =
            self.0.iter().find(|((known, name), _)| known == group && name == kind).map(|(_, place)| place.clone());
        let listed = |(plural, scope): (&str, Scope)| Place {
            plural: plural.to_owned(),
            is_namespaced: scope == Namespaced,
            is_guess: false,
        };
        own.or_else(|| scopes::resource(group, kind).map(listed)).or_else(|| {
            let is_meant = |entry: &&Entry| (entry.0, entry.2) == (group, kind);
            OFTEN_THERE.iter().find(is_meant).map(|(.., plural, scope)| listed((plural, *scope)))
        })
    }

    pub fn is_namespaced(&self, gvk: &GroupVersionKind) -> Option<bool> {
        self.known(&gvk.group, &gvk.kind).map(|place| place.is_namespaced).or_else(|| scopes::is_namespaced(gvk))
    }

    /// The group that a chart means by the name of a kind alone.
    pub fn group_of(&self, kind: &str) -> Option<String> {
        let own = self.0.iter().find(|((_, name), _)| name == kind).map(|((group, _), _)| group.clone());
        own.or_else(|| scopes::group_of(kind).map(str::to_owned))
            .or_else(|| OFTEN_THERE.iter().find(|entry| entry.2 == kind).map(|entry| entry.0.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_charts_own_definition_says_how_its_kind_is_reached() {
        let mut kinds = Kinds::default();
        assert!(kinds.place("example.com", "Goose").is_guess);
        kinds.learn(&json!({"kind": "CustomResourceDefinition", "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"kind": "Goose", "plural": "geese"}, "versions": [{"name": "v1", "served": true}]}}));
        let place = Place { plural: "geese".into(), is_namespaced: false, is_guess: false };
        assert_eq!(kinds.place("example.com", "Goose"), place);
        assert_eq!(kinds.group_of("Goose").as_deref(), Some("example.com"));
    }

    #[test]
    fn kinds_of_kubernetes_and_of_known_projects_need_no_definition() {
        let kinds = Kinds::default();
        let plural = |group: &str, kind: &str| kinds.known(group, kind).unwrap().plural;
        assert_eq!(plural("policy", "PodDisruptionBudget"), "poddisruptionbudgets");
        assert_eq!(plural("monitoring.coreos.com", "ServiceMonitor"), "servicemonitors");
        assert_eq!(kinds.group_of("HTTPRoute").as_deref(), Some("gateway.networking.k8s.io"));
        assert!(api_versions_often_there().contains(&"cert-manager.io/v1/Certificate".to_owned()));
    }
}
