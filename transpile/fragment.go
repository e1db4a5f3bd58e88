package transpile

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Fragment is one document of one pool as a MachineConfig, before rendering.
type Fragment struct {
	// Pool is the pool whose directory contains the document.
	Pool string
	// Name is the name of the MachineConfig, such as `10-worker-chrony`.
	Name string
	// MachineConfig is the object to apply. MachineConfig has only a name, the role label, the annotation for secret
	// paths and the spec. The Ignition config in the spec has version 3.5.0, in canonical JSON.
	MachineConfig *mcfgv1.MachineConfig
	// Digest is `sha256:<hex>` of the object's canonical JSON. The digest does not depend on the commit.
	Digest string
	// Contents are the files of the MachineConfig that are in the content store, because they are too large for the
	// object.
	Contents []machineconfig.LargeFile
	// File is the file that declares the document, relative to the source's path. Files other than File may have
	// patched the document.
	File string
	// Documents are the documents of single nodes that the fragment stores, with their origins. Nodes are the positions
	// of the nodes that it is about. Both are empty for other fragments.
	Documents []Fragment
	Nodes     map[string]origin.Pos
	// Node is the node that a document is for; empty for documents of all nodes with facts, and for other fragments.
	Node string
	// Origin maps each value of the fragment to its place in the repository.
	Origin origin.Map
}

// ClusterDir is the directory of a repository that contains cluster objects.
const ClusterDir = cluster.Dir

// ClusterObject is one object of the repository's `cluster/` directory. The controller applies the object without
// changes.
type ClusterObject = cluster.Object

// Result is the result of translating one tree.
type Result struct {
	// Pools are the pools that have a directory, in lexical order. Pools also contains pools without any fragment.
	Pools []string
	// Fragments are the fragments of all pools, ordered by pool, then name; nil if the report is fatal.
	Fragments []Fragment
	// Cluster has the objects of cluster/, ordered by kind, then name; nil if the report is fatal.
	Cluster []ClusterObject
	// Reads maps each pool that has a directory to the files that its fragments were built from, in lexical order and
	// relative to the source's path. The lists contain kustomization files, patches and the files that documents
	// include.
	Reads map[string][]string
	// Report has all errors and warnings.
	Report Report
}
