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
{{- define "orlop.webhookSecret" -}}
{{- .Values.webhook.existingSecret | default (printf "%s-webhook" .Release.Name) }}
{{- end }}
{{- define "orlop.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
{{- define "orlop.rules.jobflow" -}}
- apiGroups: [workflow.kube-zen.io]
  resources: [jobflows]
  verbs: [get, list, watch, delete]
- apiGroups: [workflow.kube-zen.io]
  resources: [jobflows/status]
  verbs: [patch]
- apiGroups: [workflow.kube-zen.io]
  resources: [jobflows/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create, update, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list, create]
{{- end }}
{{- define "orlop.rules.nodes" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end }}
{{- define "orlop.rules.secrets" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- define "orlop.rules.performer" -}}
- apiGroups: [hourglass.eigenlayer.io]
  resources: [performers]
  verbs: [get, list, watch, patch]
- apiGroups: [hourglass.eigenlayer.io]
  resources: [performers/status]
  verbs: [patch]
- apiGroups: [hourglass.eigenlayer.io]
  resources: [performers/finalizers]
  verbs: [update]
- apiGroups: [hourglass.eigenlayer.io]
  resources: [hourglassexecutors]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods, services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, create, delete]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaimtemplates]
  verbs: [get, list, create, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}
{{- define "orlop.rules.executor" -}}
- apiGroups: [hourglass.eigenlayer.io]
  resources: [hourglassexecutors]
  verbs: [get, list, watch, patch]
- apiGroups: [hourglass.eigenlayer.io]
  resources: [hourglassexecutors/status]
  verbs: [patch]
- apiGroups: [hourglass.eigenlayer.io]
  resources: [hourglassexecutors/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}
{{- define "orlop.rules.hardware" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
- apiGroups: [node.k8s.io]
  resources: [runtimeclasses]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, resourceslices]
  verbs: [list, watch]
{{- end }}
{{- define "orlop.rules.release.performer" -}}
- apiGroups: [hourglass.eigenlayer.io]
  resources: [performers]
  verbs: [list, patch]
{{- end }}
{{- define "orlop.rules.release.executor" -}}
- apiGroups: [hourglass.eigenlayer.io]
  resources: [hourglassexecutors]
  verbs: [list, patch]
{{- end }}
{{- define "orlop.rules.release.operator" -}}
- apiGroups: [apps]
  resources: [deployments]
  resourceNames: ["{{ .Release.Name }}"]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
{{- end }}
