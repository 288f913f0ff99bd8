{{- define "common.names.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "common.names.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "common.tplvalues.render" -}}
{{- $value := typeIs "string" .value | ternary .value (.value | toYaml) -}}
{{- if contains "{{" $value -}}
{{- tpl $value .context -}}
{{- else -}}
{{- $value -}}
{{- end -}}
{{- end -}}

{{- define "common.labels.matchLabels" -}}
app.kubernetes.io/name: {{ include "common.names.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "common.labels.standard" -}}
{{ include "common.labels.matchLabels" . }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ include "common.tplvalues.render" (dict "value" . "context" $) }}
{{- end }}
{{- end -}}

{{- define "common.images.image" -}}
{{- $registry := default .imageRoot.registry .global.imageRegistry -}}
{{- if .imageRoot.digest -}}
{{- printf "%s/%s@%s" $registry .imageRoot.repository .imageRoot.digest -}}
{{- else -}}
{{- printf "%s/%s:%s" $registry .imageRoot.repository .imageRoot.tag -}}
{{- end -}}
{{- end -}}

{{- define "common.secrets.passwords.manage" -}}
{{- $secret := lookup "v1" "Secret" .context.Release.Namespace .secret -}}
{{- if and $secret (index $secret.data .key) -}}
{{- index $secret.data .key -}}
{{- else -}}
{{- default (randAlphaNum 16) .provided | b64enc -}}
{{- end -}}
{{- end -}}

{{- define "storefront.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "common.names.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}
