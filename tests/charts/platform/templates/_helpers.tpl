{{- /* Names of cluster-scoped objects must differ between releases of one name. */}}
{{- define "platform.name" -}}
{{ .Release.Namespace }}-{{ .Release.Name }}
{{- end -}}
