//! A release with a bit of everything that a crash could double, lose or change.

use serde_json::{Value, json};

use crate::harness::Project;

/// The custom resource, and its release.
pub const NAME: &str = "web";

/// A random value and what depends on it; what only one of two revisions has; what changes and what stays; what no owner
/// reference can reach; what outlives its release.
const TEMPLATE: &str = r#"
{{- $password := randAlphaNum 24 }}
apiVersion: v1
kind: Secret
metadata: {name: web}
data: {password: "{{ $password | b64enc }}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {checksum: "{{ $password | b64enc | sha256sum }}"}
    spec:
      containers: [{name: web, image: web, env: [{name: COLOUR, value: "{{ .Values.colour }}"}]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: changes}
data: {colour: "{{ .Values.colour }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: stays}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Namespace }}-far", namespace: FAR}
data: {colour: "{{ .Values.colour }}"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}-wide"}
rules: []
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "only-{{ .Values.colour }}"}
{{- if eq .Values.colour "blue" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: only-blue}
rules: []
{{- end }}
"#;

/// The kind that all cases share.
pub async fn project() -> Project {
    let project = Project::new("App").await.reaching_out();
    project.watch_with("adopt: releases");
    project.another_namespace("far").await;
    project.template("all.yaml", &TEMPLATE.replace("FAR", &far(&project)));
    project
}

/// A namespace that is not the custom resource's.
pub fn far(shared: &Project) -> String {
    format!("{}-far", shared.namespace)
}

pub fn spec(colour: &str) -> Value {
    json!({"colour": colour})
}
