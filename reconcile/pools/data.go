package pools

import (
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// LabelKeys returns the data of the ConfigMap. The keys are the pools that select nodes by labels; each value has the
// sorted label keys, one per line.
func LabelKeys(pools []mcfgv1.MachineConfigPool) map[string]string {
	data := map[string]string{}
	for _, pool := range pools {
		if keys := selectorKeys(pool.Spec.NodeSelector); len(keys) > 0 {
			data[pool.Name] = strings.Join(keys, "\n")
		}
	}
	return data
}

// selectorKeys returns the label keys of a selector, whatever the operator. selectorKeys omits invalid keys, which the
// CRD allows. No Node can have a label with an invalid key, and the policy would read a key with a line break as two
// keys.
func selectorKeys(selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	var keys []string
	for key := range selector.MatchLabels {
		keys = append(keys, key)
	}
	for _, requirement := range selector.MatchExpressions {
		keys = append(keys, requirement.Key)
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return len(validation.IsQualifiedName(key)) > 0 })
	slices.Sort(keys)
	return slices.Compact(keys)
}
