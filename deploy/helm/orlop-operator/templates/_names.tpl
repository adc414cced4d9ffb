{{- define "orlop.labels" -}}
app.kubernetes.io/name: orlop-operator
app.kubernetes.io/part-of: orlop
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "orlop.selector" -}}
app.kubernetes.io/name: orlop-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "orlop.rules" -}}
- apiGroups: [workflow.kube-zen.io]
  resources: [jobflows]
  verbs: [get, list, watch, delete]
- apiGroups: [workflow.kube-zen.io]
  resources: [jobflows/status]
  verbs: [get, patch]
- apiGroups: [workflow.kube-zen.io]
  resources: [jobflows/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create, update, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
