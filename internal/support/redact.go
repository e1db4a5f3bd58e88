package support

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/internal/policy/secret"
)

// dataURL matches the content of a file in an Ignition config, also inside of an annotation with JSON.
var dataURL = regexp.MustCompile(`data:[A-Za-z0-9/+.=;-]*,[^"'\\\s]*`)

// contentFields are the fields whose text a bundle leaves out: contents of units, passwords, and the packed objects of
// a RevisionContent. These texts can contain secrets that no rule recognizes. The bundle has the sizes of these texts.
var contentFields = map[string]bool{"contents": true, "passwordHash": true, "data": true}

// Text masks the secrets in a text, and leaves out the contents of data URLs.
func Text(text string) string {
	text = dataURL.ReplaceAllStringFunc(text, func(url string) string {
		return fmt.Sprintf("data:(left out, %d bytes)", len(url)-strings.Index(url, ",")-1)
	})
	return secret.MaskWithDigests("", text).Text
}

// Object returns an object as YAML with its secrets masked. Object leaves out contents of files, managed fields and the
// copy that kubectl makes of an applied object.
func Object(o *unstructured.Unstructured) ([]byte, error) {
	stripped := o.DeepCopy()
	stripped.SetManagedFields(nil)
	annotations := stripped.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	stripped.SetAnnotations(annotations)
	for key, value := range stripped.Object {
		stripped.Object[key] = redacted(key, value)
	}
	text, err := yaml.Marshal(stripped.Object)
	if err != nil {
		return nil, fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return []byte(Text(string(text))), nil
}

// redacted returns the value of a field without contents, and with masked texts.
func redacted(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = redacted(k, inner)
		}
	case []any:
		for i := range v {
			v[i] = redacted(key, v[i])
		}
	case string:
		if contentFields[key] && v != "" {
			return fmt.Sprintf("(left out, %d bytes)", len(v))
		}
		return Text(v)
	}
	return value
}
