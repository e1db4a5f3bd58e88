package transpile

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Fragment is one document of one pool as a MachineConfig, before rendering.
type Fragment struct {
	// Pool whose directory holds the document.
	Pool string
	// Name of the MachineConfig: `10-worker-chrony`.
	Name string
	// MachineConfig is the object to apply: name, role label, marks of secret paths and spec only. Its Ignition is version 3.5.0 in canonical JSON.
	MachineConfig *mcfgv1.MachineConfig
	// Digest is `sha256:<hex>` of the object's canonical JSON; it does not depend on the commit.
	Digest string
	// File of the repository that declares the document, from the source's path on; others may have changed it.
	File string
	// Origin maps what the fragment says to where the repository says it.
	Origin origin.Map
}

// ClusterObject is one object of the repository's `cluster/` directory, applied as it is.
type ClusterObject struct {
	// Object without status, without spec.configuration and spec.paused.
	Object *unstructured.Unstructured
	// Digest as in Fragment.
	Digest string
	// File that holds it, and the line it begins at.
	File string
	Line int
}

// Result is everything that one tree gives.
type Result struct {
	// Pools found as directories, in lexical order, also those without any fragment.
	Pools []string
	// Fragments ordered by pool, then name. Nil where the report is fatal.
	Fragments []Fragment
	// Cluster objects ordered by kind, then name. Nil where the report is fatal.
	Cluster []ClusterObject
	// Report is everything to say.
	Report Report
}
