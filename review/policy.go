package review

import (
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/transpile"
)

// PolicyOf returns the disruption policy that a repository's cluster/ sets, over the default; the default alone where it
// sets none.
func PolicyOf(res transpile.Result) (policy.Policy, error) {
	for _, o := range res.Cluster {
		if o.Object.GetKind() != "MachineConfiguration" {
			continue
		}
		var mc operatorv1.MachineConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &mc); err != nil {
			return policy.Policy{}, fmt.Errorf("%s:%d: reading MachineConfiguration: %w", o.File, o.Line, err)
		}
		p, err := policy.FromSpec(mc.Spec.NodeDisruptionPolicy)
		if err != nil {
			return policy.Policy{}, fmt.Errorf("%s:%d: %w", o.File, o.Line, err)
		}
		return p, nil
	}
	return policy.Default(), nil
}
