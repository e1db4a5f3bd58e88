package kube

import (
	"context"
	"maps"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConditionMessage returns the message of a pool's condition if it is True; otherwise "".
func ConditionMessage(p *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// DisruptionPolicyName is the name of the MachineConfiguration that has the disruption policy.
const DisruptionPolicyName = "cluster"

// SetAnnotation sets an annotation, or removes it if the value is empty.
func SetAnnotation(o metav1.Object, key, value string) {
	annotations := maps.Clone(o.GetAnnotations())
	if value == "" {
		delete(annotations, key)
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	o.SetAnnotations(annotations)
}

// WriteStatus writes the whole status of obj if it differs from before. WriteStatus fails with a conflict if obj is
// stale. WriteStatus uses an update, because a patch omits zero values and `kubectl get mcp` would show blanks.
func WriteStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	if equality.Semantic.DeepEqual(obj, before) {
		return nil
	}
	return c.Status().Update(ctx, obj)
}

// PollInterval is how often the controller lists the repository of a source: a minute by default, and at least 5
// seconds.
func PollInterval(src *v1alpha1.GitSource) time.Duration {
	if d := src.Spec.Interval.Duration; d > 0 {
		return max(d, 5*time.Second)
	}
	return time.Minute
}
