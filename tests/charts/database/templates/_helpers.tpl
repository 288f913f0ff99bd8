{{- define "database.selector" -}}
app.kubernetes.io/name: database
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}
