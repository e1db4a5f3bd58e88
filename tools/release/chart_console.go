package main

import (
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// console parametrizes the Deployment of the console. The hosts stand in the Deployment itself, so that a change of
// them restarts the pod.
func (o *chartObject) console() error {
	spec := []string{"spec", "template", "spec"}
	container := append(slices.Clone(spec), "containers", "[name="+o.node.GetName()+"]")
	for field, path := range map[string][]string{"tolerations": spec, "nodeSelector": spec, "resources": container} {
		if err := o.set("{{ toYaml .Values.console."+field+" | nindent INDENT }}",
			append(slices.Clone(path), field)...); err != nil {
			return err
		}
	}
	hosts := append(slices.Clone(container), "env", "[name=HOSTS]")
	if err := o.node.PipeE(yaml.Lookup(hosts...), yaml.Clear("valueFrom")); err != nil {
		return err
	}
	if err := o.set(`{{ join "," .Values.console.hosts | quote }}`, append(hosts, "value")...); err != nil {
		return err
	}
	if err := o.set("{{ .Values.console.tlsSecret | quote }}", append(slices.Clone(spec), "volumes", "[name=tls]",
		"secret", "secretName")...); err != nil {
		return err
	}
	return o.set("{{ .Values.images.bunsen | quote }}", append(slices.Clone(container), "image")...)
}
