package cluster

import (
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/internal/membership"
)

// maxPoolName leaves room for the rest of a rendered config's name: the prefix rendered-, a dash and 32 digits.
const maxPoolName = validation.DNS1123SubdomainMaxLength - len("rendered--") - 32

// ownMetadata are the fields of an object's metadata that Bunsen reads from the repository. Other fields could cause
// the garbage collector to remove the object, or could prevent a user from removing or applying it.
var ownMetadata = []string{"name", "labels", "annotations", "creationTimestamp"}

// pool refuses a MachineConfigPool that the API server would accept and that no controller can use.
func (r *reader) pool(root *yaml.Node, p *mcfgv1.MachineConfigPool) {
	if len(p.Name) > maxPoolName {
		r.Errorf(r.at(root), "name", "the MachineConfigPool's name has %d characters; at most %d leave room for the "+
			"names of its rendered configs", len(p.Name), maxPoolName)
	}
	if p.Spec.MachineConfigSelector == nil || p.Spec.NodeSelector == nil {
		r.Errorf(r.at(root), "field", "the MachineConfigPool needs spec.machineConfigSelector and spec.nodeSelector; "+
			"without them it selects nothing")
	}
	_, spec := entry(root, "spec")
	for name, sel := range map[string]*metav1.LabelSelector{
		"machineConfigSelector": p.Spec.MachineConfigSelector,
		"nodeSelector":          p.Spec.NodeSelector,
	} {
		if sel == nil {
			continue
		}
		k, _ := entry(spec, name)
		switch _, err := metav1.LabelSelectorAsSelector(sel); {
		case err != nil:
			r.Errorf(r.at(k), "selector", "spec.%s: %s", name, selectorMessage(err))
		case len(sel.MatchLabels)+len(sel.MatchExpressions) == 0:
			r.Errorf(r.at(k), "selector", "spec.%s is empty: it would select everything, so Bunsen lets it select "+
				"nothing; add labels", name)
		}
	}
	if keys := membership.ReportedKeys(p.Spec.NodeSelector); p.Name != membership.Worker && len(keys) > 0 {
		k, _ := entry(spec, "nodeSelector")
		r.Warnf(r.at(k), "reported-label", "spec.nodeSelector: kubelets set %s themselves, so any node can join pool "+
			"%s and get its config. Also select by a label that an administrator sets, such as "+
			"node-role.kubernetes.io/%[2]s", strings.Join(keys, ", "), p.Name)
	}
}

// maxUnavailable checks spec.maxUnavailable in the YAML tree, because an error of the decoder would not contain the
// position of the value.
func (r *reader) maxUnavailable(root *yaml.Node) {
	_, spec := entry(root, "spec")
	k, v := entry(spec, "maxUnavailable")
	if v == nil || v.Tag == "!!null" {
		return
	}
	text, percent := strings.CutSuffix(v.Value, "%")
	n, err := strconv.ParseInt(text, 10, 32)
	switch {
	case err != nil || (v.Tag == "!!str") != percent || percent && n < 0:
		r.Errorf(r.at(k), "field", "spec.maxUnavailable: %q is neither a number such as 2 nor a percentage such as "+
			"\"10%%\"", v.Value)
	case n == 0:
		r.Warnf(r.at(k), "field", "spec.maxUnavailable: 0 stops nothing, for it is read as 1; write 1 or more, or "+
			"pause the pool")
	case n < 0:
		r.Warnf(r.at(k), "field", "spec.maxUnavailable: with %d no node of the pool is ever updated", n)
	}
}

// stripMetadata removes the metadata that Bunsen does not read from the repository, with a warning.
func (r *reader) stripMetadata(root *yaml.Node, u *unstructured.Unstructured) {
	_, meta := entry(root, "metadata")
	if meta == nil {
		return
	}
	for i := 0; i+1 < len(meta.Content); i += 2 {
		k := meta.Content[i]
		if !slices.Contains(ownMetadata, k.Value) {
			r.Warnf(r.at(k), "managed-field", "metadata.%s in the repository has no effect, because the cluster sets "+
				"it: remove it", k.Value)
			unstructured.RemoveNestedField(u.Object, "metadata", k.Value)
		}
	}
}

// selectorMessage returns why a label selector is invalid. For an unknown operator, the message lists the valid
// operators.
func selectorMessage(err error) string {
	if strings.Contains(err.Error(), "operator") {
		return err.Error() + "; operators are In, NotIn, Exists and DoesNotExist"
	}
	return err.Error() + "; correct the labels"
}
