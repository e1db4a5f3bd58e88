package transpile

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Fragment is one document of one pool as a MachineConfig, before rendering.
type Fragment struct {
	// Pool is the pool whose directory contains the document.
	Pool string
	// Name of the MachineConfig: `10-worker-chrony`.
	Name string
	// MachineConfig is the object to apply. It has only a name, the role label, the annotation for secret paths and the
	// spec. Its Ignition is version 3.5.0 in canonical JSON.
	MachineConfig *mcfgv1.MachineConfig
	// Digest is `sha256:<hex>` of the object's canonical JSON; it does not depend on the commit.
	Digest string
	// File is the file that declares the document, relative to the source's path. Other files may have patched the
	// document.
	File string
	// Origin maps each value of the fragment to its place in the repository.
	Origin origin.Map
}

// ClusterObject is one object of the repository's `cluster/` directory. The controller applies it as it is.
type ClusterObject = cluster.Object

// Result is the result of translating one tree.
type Result struct {
	// Pools are the pools that have a directory, in lexical order. A pool without any fragment is included.
	Pools []string
	// Fragments ordered by pool, then name. The list is nil if the report is fatal.
	Fragments []Fragment
	// Cluster objects ordered by kind, then name. The list is nil if the report is fatal.
	Cluster []ClusterObject
	// Reads maps each pool that has a directory to the files that its fragments were built from, in lexical order and
	// relative to the source's path. They include kustomization files, patches and the files that documents include.
	Reads map[string][]string
	// Report has all errors and warnings.
	Report Report
}
