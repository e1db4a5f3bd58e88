package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/policy/secret"
)

// In reads the config that is in force from disk; nil for none.
func In(files host.Files) (*mcfgv1.MachineConfig, error) {
	text, err := files.Read(host.RecordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	var mc mcfgv1.MachineConfig
	if err := json.Unmarshal(text, &mc); err != nil {
		return nil, damaged(err)
	}
	if mc.Name == "" {
		return nil, damaged(errors.New("it names no config"))
	}
	return &mc, nil
}

// damaged is a record that says nothing. Going on without it would leave behind what the config in force made.
func damaged(err error) error {
	return fmt.Errorf("reading the record %s: %w; restore it, or remove it: then the Node's word on the current config counts", host.RecordPath, err)
}

// Of is what the record of a config contains.
func Of(mc mcfgv1.MachineConfig) ([]byte, error) {
	kept := mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: mc.Name},
		Spec:       mc.Spec,
	}
	if marked := mc.Annotations[v1alpha1.SecretPathsAnnotation]; marked != "" {
		kept.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: marked}
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("writing the record of %s: %w", mc.Name, err)
	}
	return text, nil
}

// Named reads a config into typed form. The error has every problem.
func Named(mc mcfgv1.MachineConfig) (plan.Named, error) {
	c, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return plan.Named{}, fmt.Errorf("reading config %s: %w", mc.Name, err)
	}
	// The controller has checked the annotation; a pattern that cannot be read matches nothing.
	marked, _ := secret.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	return plan.Named{Name: mc.Name, Config: c, Secrets: marked}, nil
}
