package overlay

import (
	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// Rename adds a prefix or a suffix to the names of all documents.
type Rename struct{ Prefix, Suffix string }

// SetMetadata sets one label or annotation of all documents, so that selectors of later steps can use it. Of these,
// objects on the cluster get only the role label. Documents keep the annotation that names container runtimes, because
// it decides to which files they are translated.
type SetMetadata struct {
	Field, Key, Value string
	At                origin.Pos
}

// IsRole reports whether the label is the role label, by which pools select MachineConfigs.
func (c SetMetadata) IsRole() bool { return c.Field == "labels" && c.Key == v1alpha1.RoleLabel }

// IsRuntime reports whether the annotation names the container runtimes of documents.
func (c SetMetadata) IsRuntime() bool {
	return c.Field == "annotations" && c.Key == v1alpha1.ContainerRuntimeAnnotation
}

// readLabels reads labels, commonLabels and commonAnnotations, in kustomize's order.
func readLabels(r *layerReader, labels, commonLabels, commonAnnotations *yaml.Node) {
	if labels != nil {
		for _, l := range labels.Content {
			if l.Kind != yaml.MappingNode {
				r.Add(origin.Errorf(r.text.Pos(l), "kustomization", "an item of labels is {pairs: {key: value}}"))
				continue
			}
			if _, pairs := documents.Field(l, "pairs"); !hasUnknownLabelField(r, l) && pairs != nil {
				readPairs(r, "labels", pairs)
			}
		}
	}
	if commonLabels != nil {
		readPairs(r, "labels", commonLabels)
	}
	if commonAnnotations != nil {
		readPairs(r, "annotations", commonAnnotations)
	}
}

// hasUnknownLabelField refuses fields that would write labels outside the metadata. hasUnknownLabelField reports
// whether it has refused a field.
func hasUnknownLabelField(r *layerReader, l *yaml.Node) bool {
	for i := 0; i+1 < len(l.Content); i += 2 {
		k, v := l.Content[i], l.Content[i+1]
		switch k.Value {
		case "pairs":
		case "includeSelectors", "includeTemplates", "includeVolumeClaimTemplates":
			if v.Value != "false" {
				r.Add(origin.Warningf(r.text.Pos(k), "ignored-field", "%s changes nothing: no document here has "+
					"selectors or templates", k.Value))
			}
		case "fields":
			r.Add(origin.Errorf(r.text.Pos(k), "kustomization-field", "labels go to the metadata only, and fields "+
				"would write them elsewhere; use a patch"))
			return true
		default:
			return r.unknownKey(r.text, l, "an item of labels", "pairs", "includeSelectors", "includeTemplates",
				"includeVolumeClaimTemplates")
		}
	}
	return false
}

// readPairs adds a step for each label or annotation.
func readPairs(r *layerReader, to string, pairs *yaml.Node) {
	if pairs.Kind != yaml.MappingNode {
		r.Add(origin.Errorf(r.text.Pos(pairs), "kustomization", "%s are a mapping of words to words", to))
		return
	}
	for i := 0; i+1 < len(pairs.Content); i += 2 {
		k, v := pairs.Content[i], pairs.Content[i+1]
		if v.Kind != yaml.ScalarNode || v.Tag != "!!str" {
			r.Add(origin.Errorf(r.text.Pos(v), "kustomization", "the value of %s is text; put it in quotation marks",
				k.Value))
			continue
		}
		c := SetMetadata{to, k.Value, v.Value, r.text.Pos(k)}
		r.step(&Step{At: c.At, Transform: c})
	}
}
