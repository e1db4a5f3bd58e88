package secrets

import (
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Object is a Secret or ConfigMap that configs may refer to.
type Object struct {
	// Pools is the value of v1alpha1.SecretPoolsAnnotation.
	Pools string
	// Data are the values by key.
	Data map[string][]byte
	// Changed is when the object changed last, and Manager is the field manager that changed it.
	Changed time.Time
	Manager string
}

// Objects are the objects by their kind and name.
type Objects map[machineconfig.SecretReference]Object

// ID is the key of an object in Objects: a reference without a key.
func ID(kind machineconfig.SecretKind, name string) machineconfig.SecretReference {
	return machineconfig.SecretReference{Kind: kind, Name: name}
}

// id returns the key in Objects of the object that a reference names.
func id(r machineconfig.SecretReference) machineconfig.SecretReference { return ID(r.Kind, r.Name) }

// isFor reports whether nodes of a pool may get the object's values. Without the annotation, no pool may.
func (o Object) isFor(pool string) bool {
	for _, p := range strings.Split(o.Pools, ",") {
		if p = strings.TrimSpace(p); p == "*" || p != "" && p == pool {
			return true
		}
	}
	return false
}
