package secretref

import (
	"fmt"
	"regexp"
	"strings"
)

// Kind is the kind of object that a reference names.
type Kind string

// The kinds of objects that a config may refer to. Both are in the namespace v1alpha1.SecretsNamespace.
const (
	Secret    Kind = "secret"
	ConfigMap Kind = "configmap"
)

// Reference names one key of a Secret or ConfigMap.
type Reference struct {
	// Kind of the object.
	Kind Kind
	// Name of the object.
	Name string
	// Key of the object's data.
	Key string
}

// The limits of the Kubernetes API for names and keys.
const maxName = 253

var (
	names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	keys  = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
)

// String returns the reference as users write it: secret:NAME/KEY or configmap:NAME/KEY.
func (r Reference) String() string { return string(r.Kind) + ":" + r.Name + "/" + r.Key }

// Parse reads a reference in the form of String.
func Parse(text string) (Reference, error) {
	kind, rest, _ := strings.Cut(text, ":")
	name, key, _ := strings.Cut(rest, "/")
	r := Reference{Kind(kind), name, key}
	switch {
	case r.Kind != Secret && r.Kind != ConfigMap:
		return Reference{}, fmt.Errorf("%q is no reference: write secret:NAME/KEY or configmap:NAME/KEY", text)
	case strings.Contains(rest, "${"+factPrefix):
		return Reference{}, fmt.Errorf("%q uses a fact, and facts are no part of a reference: write each reference "+
			"into a document of its node, in nodes/NODE/", text)
	case len(name) > maxName || !names.MatchString(name):
		return Reference{}, fmt.Errorf("%q has no valid name: write %s:NAME/KEY, with a name of lower case letters, "+
			"digits, hyphens and dots", text, kind)
	case len(key) > maxName || !keys.MatchString(key):
		return Reference{}, fmt.Errorf("%q has no valid key: write %s:%s/KEY, with a key of letters, digits, "+
			"hyphens, underscores and dots", text, kind, name)
	}
	return r, nil
}
