package transpile

import (
	"bytes"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// maxPoolName leaves room for what a rendered config's name has besides its pool's: rendered-, a dash and 32 digits.
const maxPoolName = validation.DNS1123SubdomainMaxLength - len("rendered--") - 32

// ownMetadata are the fields of an object's metadata that are the repository's to say. Any other would have the garbage
// collector remove the object, or keep it from being removed or applied at all.
var ownMetadata = []string{"name", "labels", "annotations", "creationTimestamp"}

// pool checks what the API server would take of a MachineConfigPool, and no controller could use.
func (r clusterReader) pool(file string, root *yaml.Node, p *mcfgv1.MachineConfigPool) {
	if len(p.Name) > maxPoolName {
		r.fatal(place(file, root), "name", "the MachineConfigPool's name has %d characters; at most %d leave room for the names of its rendered configs", len(p.Name), maxPoolName)
	}
	_, spec := entry(root, "spec")
	for name, sel := range map[string]*metav1.LabelSelector{"machineConfigSelector": p.Spec.MachineConfigSelector, "nodeSelector": p.Spec.NodeSelector} {
		if sel == nil {
			continue // said already, for both at once
		}
		k, _ := entry(spec, name)
		switch _, err := metav1.LabelSelectorAsSelector(sel); {
		case err != nil:
			r.fatal(place(file, k), "selector", "spec.%s: %s", name, selectorMessage(err))
		case len(sel.MatchLabels)+len(sel.MatchExpressions) == 0:
			r.fatal(place(file, k), "selector", "spec.%s is empty and would mean everything, so that it is taken to mean nothing; name labels", name)
		}
	}
}

// selectorMessage says why a label selector cannot be used, with the operators that there are where one is wrong.
func selectorMessage(err error) string {
	if strings.Contains(err.Error(), "operator") {
		return err.Error() + "; operators are In, NotIn, Exists and DoesNotExist"
	}
	return err.Error() + "; correct the labels"
}

// selectsNothing warns of a MachineConfigPool without documents of its own that takes no other document either: MachineConfigs that
// were made through the API may have the labels, and the repository does not know.
func (r clusterReader) selectsNothing(o ClusterObject) {
	pool := o.Object.GetName()
	chosen, err := Select(r.out, pool)
	if err != nil || len(chosen) > 0 || slices.Contains(r.out.Pools, pool) || origin.Fatal(r.findings) {
		return
	}
	r.warn(r.fieldOf(o, "spec.machineConfigSelector"), "empty-selection", "spec.machineConfigSelector takes no document of this repository: unless the cluster has other MachineConfigs with these labels, the nodes of pool %s keep the config that they have, and the pool becomes degraded; add documents to %s/%s, or remove %s too", pool, poolsDir, pool, o.File)
}

// passesBy refuses a pool that has documents of its own, and takes neither them nor any other.
func (r clusterReader) passesBy(pool string) {
	o, ok := poolObject(pool, r.out.Cluster)
	chosen, err := Select(r.out, pool)
	if !ok || err != nil || len(chosen) > 0 || origin.Fatal(r.findings) { // what cannot be read could not be taken
		return
	}
	r.fatal(r.fieldOf(o, "spec.machineConfigSelector"), "empty-selection", "spec.machineConfigSelector takes no document of this repository, not even those of %s/%s: select %s: %s", poolsDir, pool, v1alpha1.RoleLabel, pool)
}

// fieldOf finds a field of an object that was read.
func (r clusterReader) fieldOf(o ClusterObject, field string) origin.Pos {
	at := origin.Pos{File: o.File, Line: o.Line}
	src, err := fs.ReadFile(r.fs, o.File)
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for err == nil {
		var doc yaml.Node
		if err = dec.Decode(&doc); err == nil && doc.Content[0].Line == o.Line {
			return fieldPlace(o.File, doc.Content[0], strconv.Quote(field))
		}
	}
	return at
}

// maxUnavailable checks the value as it is written, as decoding it names no place.
func (r clusterReader) maxUnavailable(file string, root *yaml.Node) {
	_, spec := entry(root, "spec")
	k, v := entry(spec, "maxUnavailable")
	if v == nil || v.Tag == "!!null" {
		return
	}
	text, percent := strings.CutSuffix(v.Value, "%")
	n, err := strconv.ParseInt(text, 10, 32)
	switch {
	case err != nil || (v.Tag == "!!str") != percent || percent && n < 0:
		r.fatal(place(file, k), "field", "spec.maxUnavailable: %q is neither a number such as 2 nor a percentage such as \"10%%\"", v.Value)
	case n < 0:
		r.warn(place(file, k), "field", "spec.maxUnavailable: with %d no node of the pool is ever updated", n)
	}
}

// stripMetadata removes what is not the repository's to say, and says so.
func (r clusterReader) stripMetadata(file string, root *yaml.Node, u *unstructured.Unstructured) {
	_, meta := entry(root, "metadata")
	if meta == nil {
		return
	}
	for i := 0; i+1 < len(meta.Content); i += 2 {
		k := meta.Content[i]
		if !slices.Contains(ownMetadata, k.Value) {
			r.warn(place(file, k), "managed-field", "metadata.%s is not taken from the repository: it is the cluster's own; remove it here", k.Value)
			unstructured.RemoveNestedField(u.Object, "metadata", k.Value)
		}
	}
}
