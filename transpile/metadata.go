package transpile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/transpile/containerruntime"
	"github.com/bunsen-os/bunsen/transpile/kubelet"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// ruleMetadata is the rule of labels and annotations that the API server refuses.
const ruleMetadata = "metadata"

// reservedPrefix begins the keys of labels and annotations that Bunsen itself writes, with the exception of those that isForUsers tells.
const reservedPrefix = "bunsen.dev/"

// isForUsers tells of an annotation under reservedPrefix that a repository may set.
func isForUsers(key string) bool {
	return key == policy.InPlaceAnnotation || key == overlay.RemovesAnnotation || key == kubelet.PathAnnotation || key == containerruntime.RuntimeAnnotation
}

// metadataProblem is one label or annotation that the API server or Bunsen refuses.
type metadataProblem struct {
	// field is labels or annotations; key is empty where the problem is in all entries together.
	field, key string
	// text says what is wrong and how to fix it.
	text string
}

// checkMetadata finds all labels and annotations that the API server refuses, by its own validation functions, and those that
// only Bunsen may write. The problems are in the order of fields and keys.
func checkMetadata(labels, annotations map[string]string) (out []metadataProblem) {
	refuse := func(field, key, what string, reasons []string) {
		if len(reasons) > 0 {
			text := fmt.Sprintf("metadata.%s: the API server refuses %s: %s; correct it or remove it", field, what, strings.Join(reasons, "; "))
			out = append(out, metadataProblem{field, key, text})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		refuse("labels", key, fmt.Sprintf("the key %q", key), validation.IsQualifiedName(key))
		refuse("labels", key, fmt.Sprintf("the value %q of %q", labels[key], key), validation.IsValidLabelValue(labels[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		refuse("annotations", key, fmt.Sprintf("the key %q", key), validation.IsQualifiedName(strings.ToLower(key)))
	}
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		size := 0
		for key, value := range annotations {
			size += len(key) + len(value)
		}
		out = append(out, metadataProblem{field: "annotations", text: fmt.Sprintf(
			"metadata.annotations: all keys and values together have %d bytes, and the API server takes at most %d; shorten or remove annotations", size, apivalidation.TotalAnnotationSizeLimitB)})
	}
	for _, entries := range []struct {
		field string
		all   map[string]string
	}{{"labels", labels}, {"annotations", annotations}} {
		for _, key := range slices.Sorted(maps.Keys(entries.all)) {
			if strings.HasPrefix(key, reservedPrefix) && !isForUsers(key) {
				out = append(out, metadataProblem{entries.field, key, fmt.Sprintf("metadata.%s: %s is reserved: only Bunsen writes it; remove it", entries.field, key)})
			}
		}
	}
	return out
}

// metadata checks the name, the namespace, the labels and the annotations of an object of cluster/.
func (r clusterReader) metadata(file string, root *yaml.Node, u *unstructured.Unstructured) {
	_, meta := entry(root, "metadata")
	at := func(field string) *yaml.Node {
		if meta != nil {
			if k, _ := entry(meta, field); k != nil {
				return k
			}
		}
		return root
	}
	name := place(file, at("name"))
	switch reasons := apivalidation.NameIsDNSSubdomain(u.GetName(), false); {
	case u.GetName() == "":
		r.fatal(place(file, root), "name", "the %s has no metadata.name; give it one (generateName would make a new object of every commit)", u.GetKind())
	case len(reasons) > 0:
		r.fatal(name, "name", "metadata.name: the API server refuses %q: %s; rename the %s", u.GetName(), strings.Join(reasons, "; "), u.GetKind())
	case u.GetKind() == policyKind && u.GetName() != policyName:
		r.fatal(name, "name", "metadata.name: a MachineConfiguration has the name %q, and this one has %q; rename it", policyName, u.GetName())
	}
	if u.GetNamespace() != "" {
		r.fatal(place(file, at("namespace")), "name", "metadata.namespace: a %s is in no namespace; remove it", u.GetKind())
	}
	for _, p := range checkMetadata(u.GetLabels(), u.GetAnnotations()) {
		n := at(p.field)
		if _, entries := entry(root, "metadata"); entries != nil && p.key != "" {
			if _, values := entry(entries, p.field); values != nil {
				if k, _ := entry(values, p.key); k != nil {
					n = k
				}
			}
		}
		r.fatal(place(file, n), ruleMetadata, "%s", p.text)
	}
}
