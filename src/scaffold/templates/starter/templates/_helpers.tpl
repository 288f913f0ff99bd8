{{/*
The name of the objects: the release's name. A release's name may have dots, a Service's may not.
*/}}
{{- define "@chart@.fullname" -}}
{{- .Release.Name | replace "." "-" | trunc 63 | trimAll "-._" -}}
{{- end -}}

{{/*
What tells this release's pods from all others. It never changes in the life of a release.
*/}}
{{- define "@chart@.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/*
The labels of every object. A "+" in the chart's version is not allowed in a label.
*/}}
{{- define "@chart@.labels" -}}
{{ include "@chart@.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-._" }}
{{- end -}}

{{/*
The ServiceAccount that the pods run as.
*/}}
{{- define "@chart@.serviceAccountName" -}}
{{- $account := .Values.serviceAccount | default dict -}}
{{- $account.name | default (ternary (include "@chart@.fullname" .) "default" ($account.create | default false)) -}}
{{- end -}}

{{/*
The image to run.
*/}}
{{- define "@chart@.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
