package machineconfig

import (
	"fmt"
	"regexp"
	"strings"
)

// SecretKind is the kind of object that a reference names.
type SecretKind string

// The kinds of objects that a config may refer to. Both are in the namespace v1alpha1.SecretsNamespace.
const (
	Secret    SecretKind = "secret"
	ConfigMap SecretKind = "configmap"
)

// SecretReference names one key of a Secret or ConfigMap.
type SecretReference struct {
	// Kind of the object.
	Kind SecretKind
	// Name of the object.
	Name string
	// Key of the object's data.
	Key string
}

// The limits of the Kubernetes API for names and keys.
const maxSecretName = 253

var (
	names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	keys  = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
)

// String returns the reference as users write it: secret:NAME/KEY or configmap:NAME/KEY.
func (r SecretReference) String() string { return string(r.Kind) + ":" + r.Name + "/" + r.Key }

// ParseSecret reads a reference in the form of String.
func ParseSecret(text string) (SecretReference, error) {
	kind, rest, _ := strings.Cut(text, ":")
	name, key, _ := strings.Cut(rest, "/")
	r := SecretReference{SecretKind(kind), name, key}
	switch {
	case r.Kind != Secret && r.Kind != ConfigMap:
		return SecretReference{}, fmt.Errorf("%q is no reference: write secret:NAME/KEY or configmap:NAME/KEY", text)
	case strings.Contains(rest, "${"+factPrefix):
		return SecretReference{}, fmt.Errorf("%q uses a fact, and facts are no part of a reference: write each "+
			"reference "+
			"into a document of its node, in nodes/NODE/", text)
	case len(name) > maxSecretName || !names.MatchString(name):
		return SecretReference{}, fmt.Errorf("%q has no valid name: write %s:NAME/KEY, with a name of lower case "+
			"letters, "+
			"digits, hyphens and dots", text, kind)
	case len(key) > maxSecretName || !keys.MatchString(key):
		return SecretReference{}, fmt.Errorf("%q has no valid key: write %s:%s/KEY, with a key of letters, digits, "+
			"hyphens, underscores and dots", text, kind, name)
	}
	return r, nil
}
