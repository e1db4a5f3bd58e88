package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Config is a config with its name.
type Config struct {
	// Name of the MachineConfig; "" for the empty config that a machine starts from.
	Name   string
	Config machineconfig.Config
	// Secrets are the paths and units that users mark as secret.
	Secrets secretmask.Paths
}

// RecordOf returns the content of the record of a config: its name, spec, secret paths and the revision of its secrets.
// The spec has references to secrets, and no contents of them.
func RecordOf(mc mcfgv1.MachineConfig) ([]byte, error) {
	kept := mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: mc.Name},
		Spec:       mc.Spec,
	}
	for _, key := range []string{v1alpha1.SecretPathsAnnotation, v1alpha1.CurrentSecretsAnnotation} {
		if value := mc.Annotations[key]; value != "" {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("writing the record of %s: %w", mc.Name, err)
	}
	return text, nil
}

// NameOf returns the text of the v1alpha1.ConfigVersion of a record or a task.
func NameOf(mc mcfgv1.MachineConfig) string {
	return v1alpha1.NewConfigVersion(mc.Name, mc.Annotations[v1alpha1.CurrentSecretsAnnotation]).String()
}

// ParseRecord reads the content of a record. A damaged record is an error: without the record, the daemon could not
// remove the files of the config in force.
func ParseRecord(text []byte) (*mcfgv1.MachineConfig, error) {
	mc := new(mcfgv1.MachineConfig)
	err := json.Unmarshal(text, mc)
	if err == nil && mc.Name == "" {
		err = errors.New("it names no config")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record %s: %w; restore it, or remove it to use the current config that "+
			"the Node names", host.RecordPath, err)
	}
	return mc, nil
}

// ParseConfig reads a MachineConfig into its typed form, with the name of NameOf. The error has every problem.
func ParseConfig(mc mcfgv1.MachineConfig) (Config, error) {
	c, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return Config{}, fmt.Errorf("reading config %s: %w", mc.Name, err)
	}
	// The error is ignored, because the controller has checked the annotation. A pattern that cannot be parsed matches
	// nothing.
	marked, _ := secretmask.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	return Config{Name: NameOf(mc), Config: c, Secrets: marked}, nil
}

// WithRecord returns a state with the record of the config in force.
func WithRecord(s host.State, contents []byte) host.State {
	s = s.Clone()
	addRecord(s, contents)
	return s
}

// addRecord adds the record to a state, which it changes.
func addRecord(s host.State, contents []byte) {
	digest := host.DigestOf(contents)
	s.Contents[digest] = contents
	s.Paths[host.RecordPath] = host.Entry{Kind: host.File, Mode: 0o600, Digest: digest}
	for dir := range disruption.Parents(host.RecordPath) {
		if is := s.Paths[dir]; is.Kind != host.Dir && is.Kind != host.Link {
			s.Paths[dir] = directory(dir, nil)
		}
	}
}
