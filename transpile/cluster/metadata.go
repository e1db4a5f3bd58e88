package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	transpilekinds "github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// MetadataRule is the rule of findings about labels and annotations that the API server refuses.
const MetadataRule = "metadata"

// reservedPrefix is the prefix of labels and annotations that only Bunsen writes. The function isForUsers lists the
// exceptions.
const reservedPrefix = "bunsen.dev/"

// isForUsers reports whether a repository may set an annotation under reservedPrefix.
func isForUsers(key string) bool {
	return key == disruption.InPlaceAnnotation || key == overlay.RemovesAnnotation ||
		key == transpilekinds.KubeletPathAnnotation ||
		key == v1alpha1.ContainerRuntimeAnnotation
}

// MetadataProblem is one label or annotation that the API server or Bunsen refuses.
type MetadataProblem struct {
	// Field is "labels" or "annotations". Key is empty if the problem concerns all entries together.
	Field, Key string
	// Text says what is wrong and how to fix it.
	Text string
}

// CheckMetadata finds all labels and annotations that the API server refuses, and those that only Bunsen may write.
// CheckMetadata uses the validation functions of the API server. The problems are in the order of fields and keys.
func CheckMetadata(labels, annotations map[string]string) (out []MetadataProblem) {
	refuse := func(field, key, what string, reasons []string) {
		if len(reasons) > 0 {
			text := fmt.Sprintf("metadata.%s: the API server refuses %s: %s; correct it or remove it", field, what,
				strings.Join(reasons, "; "))
			out = append(out, MetadataProblem{field, key, text})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		refuse("labels", key, fmt.Sprintf("the key %q", key), validation.IsQualifiedName(key))
		refuse("labels", key, fmt.Sprintf("the value %q of %q", labels[key], key),
			validation.IsValidLabelValue(labels[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		refuse("annotations", key, fmt.Sprintf("the key %q", key), validation.IsQualifiedName(strings.ToLower(key)))
	}
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		size := 0
		for key, value := range annotations {
			size += len(key) + len(value)
		}
		out = append(out, MetadataProblem{Field: "annotations", Text: fmt.Sprintf(
			"metadata.annotations: all keys and values together have %d bytes, and the API server takes at most %d; "+
				"shorten or remove annotations", size, apivalidation.TotalAnnotationSizeLimitB)})
	}
	for _, entries := range []struct {
		field string
		all   map[string]string
	}{{"labels", labels}, {"annotations", annotations}} {
		for _, key := range slices.Sorted(maps.Keys(entries.all)) {
			if strings.HasPrefix(key, reservedPrefix) && !isForUsers(key) {
				out = append(out, MetadataProblem{
					entries.field, key,
					fmt.Sprintf("metadata.%s: %s is reserved: only Bunsen writes it; remove it", entries.field, key),
				})
			}
		}
	}
	return out
}

// metadata checks the name, the namespace, the labels and the annotations of an object of cluster/.
func (r *reader) metadata(root *yaml.Node, u *unstructured.Unstructured) {
	_, meta := entry(root, "metadata")
	at := func(field string) *yaml.Node {
		if meta != nil {
			if k, _ := entry(meta, field); k != nil {
				return k
			}
		}
		return root
	}
	name := r.at(at("name"))
	switch reasons := apivalidation.NameIsDNSSubdomain(u.GetName(), false); {
	case u.GetName() == "":
		r.Errorf(r.at(root), "name", "the %s has no metadata.name; add one (generateName would create a new object "+
			"for every commit)", u.GetKind())
	case len(reasons) > 0:
		r.Errorf(name, "name", "metadata.name: the API server refuses %q: %s; rename the %s", u.GetName(),
			strings.Join(reasons, "; "), u.GetKind())
	case u.GetKind() == policyKind && u.GetName() != policyName:
		r.Errorf(name, "name", "metadata.name: the name of a MachineConfiguration is %q, not %q; rename it", policyName,
			u.GetName())
	}
	if u.GetNamespace() != "" {
		r.Errorf(r.at(at("namespace")), "name", "metadata.namespace: a %s has no namespace; remove the field",
			u.GetKind())
	}
	for _, p := range CheckMetadata(u.GetLabels(), u.GetAnnotations()) {
		n := at(p.Field)
		if _, entries := entry(root, "metadata"); entries != nil && p.Key != "" {
			if _, values := entry(entries, p.Field); values != nil {
				if k, _ := entry(values, p.Key); k != nil {
					n = k
				}
			}
		}
		r.Errorf(r.at(n), MetadataRule, "%s", p.Text)
	}
}
