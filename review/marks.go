package review

import (
	"errors"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/secret"
	"github.com/bunsen-os/bunsen/transpile"
)

// secretsOf reads the annotations that concern a pool: of its MachineConfigPool, of the MachineConfiguration, and of the
// MachineConfigs made through the API that it selects.
func secretsOf(res transpile.Result, pool string, inputs []*mcfgv1.MachineConfig) (out secret.Paths, err error) {
	var bad []error
	for _, o := range res.Cluster {
		if o.Object.GetKind() != policyKind && o.Object.GetName() != pool {
			continue
		}
		marked, err := secret.ParsePaths(o.Object.GetAnnotations()[v1alpha1.SecretPathsAnnotation])
		if err != nil {
			bad = append(bad, fmt.Errorf("%s:%d: reading annotation %s: %w", o.File, o.Line, v1alpha1.SecretPathsAnnotation, err))
		}
		out = append(out, marked...)
	}
	for _, mc := range inputs {
		marked, err := secret.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
		if err != nil {
			bad = append(bad, fmt.Errorf("reading annotation %s of MachineConfig %q: %w", v1alpha1.SecretPathsAnnotation, mc.Name, err))
		}
		out = append(out, marked...)
	}
	return out, errors.Join(bad...)
}
