package kinds

import (
	"bytes"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

// NodeFactsProblems returns what Ignition, Bunsen or every node would refuse in a document.
func NodeFactsProblems(d machineconfig.NodeDocument) []string {
	config, err := machineconfig.Parse(d.Spec)
	if err != nil {
		return strings.Split(err.Error(), "\n")
	}
	var out []string
	for _, p := range slices.Concat(machineconfig.Check(config), machineconfig.CheckImages(config)) {
		out = append(out, p.Error())
	}
	if _, err := machineconfig.SecretFilesOf(config); err != nil {
		out = append(out, strings.Split(err.Error(), "\n")...)
	}
	if len(out) == 0 {
		for _, r := range disruption.Invalid(config) {
			out = append(out, r.Field+": "+r.Why)
		}
	}
	return out
}

// CheckTemplates returns an error if a document has templates with facts, although no table or directory of nodes gives
// them values.
func CheckTemplates(spec mcfgv1.MachineConfigSpec) error {
	if !bytes.Contains(spec.Config.Raw, []byte("bunsen.template")) {
		return nil
	}
	config, err := machineconfig.Parse(spec)
	if err != nil {
		return nil // The validation of the document reports this error.
	}
	_, err = machineconfig.SecretFiles(config)
	return err
}

// CheckImages is machineconfig.CheckImages for a document whose facts have no values yet: it leaves out the images that
// use a fact. Problems checks them with the facts of each node.
func CheckImages(spec mcfgv1.MachineConfigSpec) machineconfig.Problems {
	return checkImages(spec, func(image string) bool { return !strings.Contains(image, machineconfig.ContentFact) })
}

// CheckPlainImages checks the images that CheckImages leaves out, for a document that gets no facts.
func CheckPlainImages(spec mcfgv1.MachineConfigSpec) error {
	return checkImages(spec, func(image string) bool {
		return strings.Contains(image, machineconfig.ContentFact)
	}).Err()
}

func checkImages(spec mcfgv1.MachineConfigSpec, which func(image string) bool) machineconfig.Problems {
	var c machineconfig.Config
	if which(spec.OSImageURL) {
		c.OSImageURL = spec.OSImageURL
	}
	if which(spec.BaseOSExtensionsContainerImage) {
		c.ExtensionsImage = spec.BaseOSExtensionsContainerImage
	}
	return machineconfig.CheckImages(c)
}
