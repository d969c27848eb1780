{{- define "carafe.labels" -}}
app.kubernetes.io/name: carafe
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* carafe.selector (dict "root" $ "component" "node") */}}
{{- define "carafe.selector" -}}
app.kubernetes.io/name: carafe
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "carafe.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "carafe.controllerAccount" -}}{{ .Release.Name }}-controller{{- end }}
{{- define "carafe.nodeAccount" -}}{{ .Release.Name }}-node{{- end }}
{{- define "carafe.nodeUser" -}}system:serviceaccount:{{ .Release.Namespace }}:{{ include "carafe.nodeAccount" . }}{{- end }}
{{- define "carafe.pluginDir" -}}{{ .Values.kubeletDir }}/plugins/{{ .Values.driverName }}{{- end }}

{{- define "carafe.snapshots" -}}
{{- if or (eq .Values.snapshots.enabled "always") (and (eq .Values.snapshots.enabled "auto") (.Capabilities.APIVersions.Has "snapshot.storage.k8s.io/v1")) }}true{{ end -}}
{{- end }}

{{/* The file systems of the values, and that of quickstart. */}}
{{- define "carafe.fileSystems" -}}
{{- $all := .Values.fileSystems -}}
{{- if .Values.quickstart.enabled -}}
{{- $name := printf "%s-quickstart" .Release.Name -}}
{{- $all = append $all (dict
      "name" "quickstart"
      "secretName" $name
      "format" (dict "bucket" "s3://carafe/quickstart" "endpoint" (printf "http://%s.%s.svc:8333" $name .Release.Namespace))
      "storageClasses" (list (dict "name" .Values.quickstart.storageClassName))
      "snapshotClass" (dict "name" .Values.quickstart.storageClassName)) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}

{{/* carafe.sidecar (dict "root" $ "sidecar" .Values.sidecars.x "name" "provisioner" "args" (list ...)): all but the mounts */}}
{{- define "carafe.sidecar" -}}
- name: {{ .name }}
  image: {{ .sidecar.image }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  {{- with .sidecar.command }}
  command: {{ toYaml . | nindent 4 }}
  {{- end }}
  args: {{ concat .args .sidecar.extraArgs | toYaml | nindent 4 }}
  resources: {{ toYaml .root.Values.sidecars.resources | nindent 4 }}
  securityContext: {{ include "carafe.locked" . | nindent 4 }}
{{- end }}

{{/* What a container is allowed that needs nothing. */}}
{{- define "carafe.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "carafe.logArgs" -}}
- --log={{ .Values.log.filter }}
{{- if .Values.log.json }}
- --log-json
{{- end }}
{{- end }}
