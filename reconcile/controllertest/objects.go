package controllertest

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Node returns a Ready node of the pool worker with a current and a desired config.
func Node(name, current, desired string) *corev1.Node {
	state := v1alpha1.StateDone
	if current != desired {
		state = v1alpha1.StateWorking
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""},
			Annotations: map[string]string{
				v1alpha1.CurrentConfigAnnotation: current, v1alpha1.DesiredConfigAnnotation: desired,
				v1alpha1.StateAnnotation: state,
			},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type:   corev1.NodeReady,
			Status: corev1.ConditionTrue,
		}}},
	}
}

// SendChanges compares the existing objects with those that it sent before, and sends the differences to the handlers.
func SendChanges[T client.Object](shown map[string]T, there []T, put, drop func(T) []string) (asked []string) {
	gone := maps.Clone(shown)
	for _, o := range there {
		old, was := shown[o.GetName()]
		delete(gone, o.GetName())
		if !was || old.GetResourceVersion() != o.GetResourceVersion() {
			asked = append(asked, put(o)...)
			shown[o.GetName()] = o
		}
	}
	for name, o := range gone {
		asked = append(asked, drop(o)...)
		delete(shown, name)
	}
	return asked
}

// PoolCondition returns a condition of a pool as `Status|Message`.
func PoolCondition(p *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s|%s", c.Status, c.Message)
		}
	}
	return "absent"
}

// Pool returns a pool with the selectors for its name.
func Pool(name string) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: mcfgv1.MachineConfigPoolSpec{
			MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.RoleLabel: name}},
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" +
				name: ""}},
		},
	}
}

// ManualConfig returns a MachineConfig that a user created through the API.
func ManualConfig(name, role, config string) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RoleLabel: role}},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(config)}},
	}
}

// Files returns a tree. Each argument is `path=content` for a Butane document of one file, or a whole txtar section.
func Files(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		if strings.HasPrefix(p, "-- ") {
			b.WriteString(p)
			continue
		}
		doc, content, _ := strings.Cut(p, "=")
		name := strings.TrimSuffix(filepath.Base(doc), ".bu")
		fmt.Fprintf(&b, "-- pools/%s --\nvariant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/%s\n"+
			"      mode: 0644\n      contents:\n        inline: %q\n",
			doc, name, content)
	}
	return b.String()
}
