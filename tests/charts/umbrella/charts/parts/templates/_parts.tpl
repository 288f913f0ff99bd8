{{- define "parts.config" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  colour: {{ .Values.colour }}
{{- end -}}
{{- define "parts.unused" -}}
apiVersion: v1
kind: LimitRange
metadata:
  name: {{ .Release.Name }}
{{- end -}}
