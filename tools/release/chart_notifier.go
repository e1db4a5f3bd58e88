package main

import "slices"

// notifier parametrizes the Deployment of the notifier, which uses the controller's image.
func (o *chartObject) notifier() error {
	o.condition = ".Values.notifier.enabled"
	spec := []string{"spec", "template", "spec"}
	container := append(slices.Clone(spec), "containers", "[name="+o.node.GetName()+"]")
	for field, path := range map[string][]string{"tolerations": spec, "nodeSelector": spec, "resources": container} {
		if err := o.set("{{ toYaml .Values.notifier."+field+" | nindent INDENT }}",
			append(slices.Clone(path), field)...); err != nil {
			return err
		}
	}
	return o.set("{{ .Values.images.controller | quote }}", append(slices.Clone(container), "image")...)
}
