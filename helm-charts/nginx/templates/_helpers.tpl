{{/*
The value of app.kubernetes.io/name. A label holds at most 63 characters and ends with a letter or digit.
*/}}
{{- define "nginx.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimAll "-._" -}}
{{- end -}}

{{/*
The name of the objects: the release's name. A release's name may have dots, a Service's may not.
*/}}
{{- define "nginx.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | replace "." "-" | trunc 63 | trimAll "-._" -}}
{{- end -}}

{{/*
What tells the web pods from all others, the test's pod included. It never changes in the life of a release.
*/}}
{{- define "nginx.selectorLabels" -}}
{{ include "nginx.identityLabels" . }}
app.kubernetes.io/component: web
{{- end -}}

{{/*
What the web pods and the test's pod have in common. Quoted, because a release may be called "1" or "true".
*/}}
{{- define "nginx.identityLabels" -}}
app.kubernetes.io/name: {{ include "nginx.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/*
The labels of every object. A "+" in the chart's version is not allowed in a label.
*/}}
{{- define "nginx.labels" -}}
{{ include "nginx.identityLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-._" }}
{{- end -}}

{{/*
The ServiceAccount that the pods run as.
*/}}
{{- define "nginx.serviceAccountName" -}}
{{- $account := .Values.serviceAccount | default dict -}}
{{- if $account.create -}}
{{- $account.name | default (include "nginx.fullname" .) -}}
{{- else -}}
{{- $account.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/*
The image to run.
*/}}
{{- define "nginx.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default (printf "%s-alpine-slim" $.Chart.AppVersion) }}
{{- end -}}
{{- end -}}
{{- end -}}
