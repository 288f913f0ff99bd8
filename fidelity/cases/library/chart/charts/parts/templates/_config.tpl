{{- define "parts.config" -}}
{{- $top := first . -}}
{{- $more := fromYaml (include (index . 1) $top) | default (dict) -}}
{{- toYaml (merge $more (fromYaml (include "parts.config.base" $top))) -}}
{{- end }}
{{- define "parts.config.base" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  labels: {chart: {{ .Chart.Name }}, library: {{ .Values.parts.suffix }}}
data:
  version: one
  chart: {{ .Chart.Version }}
{{- end }}
