package review

import (
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Side is one of the two states that Compare compares: a tree, or the configs that run in a cluster.
type Side struct {
	// Name is for people: a revision or a directory.
	Name string
	// Commit is nil for a directory or a cluster.
	Commit *Commit
	// Folder of the repository, or "" for all of it. The undo command changes only this folder.
	Folder string
	// Pools by name.
	Pools map[string]Pool
	// Policy has the defaults of what the MachineConfiguration does not set. Head's judges the change, because it
	// applies when head is rolled out.
	Policy disruption.Policy
	// Overrides are allowed by the MachineConfiguration of this side. Compare uses those of head.
	Overrides disruption.Overrides
	// PolicyFile has the side's MachineConfiguration: `MachineConfiguration cluster` if only the cluster has one, or
	// "".
	PolicyFile string
	// Declared pools, with or without documents. In a review only base's annotations allow contents that no reviewer
	// can read.
	Declared []mcfgv1.MachineConfigPool
	// Objects of cluster/, with the declared pools.
	Objects []transpile.ClusterObject
	// Marks of the cluster objects. In a review only those of base hide contents.
	Marks    Marks
	Warnings []Warning
	// Encryption is who can read the secrets; zero if that is unknown, as of a cluster.
	Encryption EncryptionState
	// Entries of the tree. If one side has none, nothing is said about files.
	Entries map[string]source.Entry
	// Reads are the files that the documents of each pool are built from.
	Reads map[string][]string
	// Decrypt decrypts files of SOPS for a reader who has their key, at head; nil shows no value.
	Decrypt func(format string, body []byte) ([]byte, error)
}

// declares reports whether the side has the pool's MachineConfigPool, as every cluster has those of the standard pools.
func (s Side) declares(pool string) bool { return isStandard(pool) || s.declared(pool) != nil }

func (s Side) declared(pool string) *mcfgv1.MachineConfigPool {
	for i := range s.Declared {
		if s.Declared[i].Name == pool {
			return &s.Declared[i]
		}
	}
	return nil
}

// unreviewed returns the paths at which a pool may have contents that no reviewer can read; for a pool that this side
// lacks those of worker, whose documents a custom pool gets: otherwise no change could add a pool beside a worker with
// such contents.
func (s Side) unreviewed(pool string) string {
	own := s.declared(pool)
	if own == nil && !isStandard(pool) {
		own = s.declared(nextPool)
	}
	if own == nil {
		return ""
	}
	return own.Annotations[v1alpha1.UnreviewedPathsAnnotation]
}

// nextPool: it gets the nodes of a removed custom pool, unless another pool selects them.
const nextPool = "worker"

// Pool is one pool with its rendered config.
type Pool struct {
	// Rendered is `rendered-<pool>-<hash>`. Two configs with one name have the same content, and are not compared.
	Rendered string
	Config   machineconfig.Config
	// Origin returns where the repository sets an item: `file:line:col`, or "" if unknown. The name of a kernel
	// argument or an extension is the value itself. Only changed items are asked for; it may be nil.
	Origin func(kind disruption.ChangeKind, name string) string
	// Lineage returns which documents wrote each attribute of an item. Only changed items are asked for; it may be nil.
	Lineage func(kind disruption.ChangeKind, name string) (lineage.Item, bool)
	// Secrets mark items whose contents are never printed: see v1alpha1.SecretPathsAnnotation.
	Secrets secretmask.Paths
	// NotAllowed returns what this side would refuse with the v1alpha1.UnreviewedPathsAnnotation of another one; nil
	// for a cluster.
	NotAllowed func(annotation string) []string
	Notices    []Notice
	// Nodes is nil if all nodes run Config.
	Nodes *NodeSide
	// Sizes of files of the content store, as far as known.
	Sizes DownloadSizes
	// a config of a cluster, whose configs of single nodes are unknown
	live bool
}

// PolicyKind is the kind of the object with the disruption policy.
const PolicyKind = "MachineConfiguration"

// Marks are the paths and units that the objects of a repository or a cluster mark as secret.
type Marks map[string]secretmask.Paths

// Add adds the marks of an object: a MachineConfiguration's apply to all pools, a MachineConfigPool's to that pool.
// Other kinds have none.
func (m Marks) Add(kind, name string, annotations map[string]string) error {
	pool := name
	switch kind {
	case PolicyKind:
		pool = allPools
	case PoolKind:
	default:
		return nil
	}
	marked, err := secretmask.ParsePaths(annotations[v1alpha1.SecretPathsAnnotation])
	m[pool] = append(m[pool], marked...)
	if err != nil {
		return fmt.Errorf("reading annotation %s of %s %q: %w", v1alpha1.SecretPathsAnnotation, kind, name, err)
	}
	return nil
}

// allPools: no pool has this name.
const allPools = ""

func (m Marks) of(pool string) secretmask.Paths { return slices.Concat(m[allPools], m[pool]) }

// trustedMarks are base's, which hide contents in a review. With those of head, a change could hide its own contents.
func trustedMarks(base Side, pools ...string) (out secretmask.Paths) {
	for _, pool := range pools {
		out = append(out, base.Pools[pool].Secrets...)
		out = append(out, base.Marks.of(pool)...)
	}
	return out
}

func without(patterns, other secretmask.Paths) (out []string) {
	for _, p := range patterns {
		if !slices.Contains(other, p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
