package transpile

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// maxRefusedWarnings is how many refused entries of a tree get a warning of their own.
const maxRefusedWarnings = 20

// reportRefused reports the entries that are not in the tree. A refused entry that Bunsen would read by its place is an
// error, because a document would be missing silently: an object of cluster/, the directory of a pool, its documents,
// its directory nodes/ and the directories there. Elsewhere, it is a warning, because a document that refers to it has
// an error of its own.
func reportRefused(repo repository, found *origin.Findings) {
	rest := 0
	for _, e := range repo.tree.Refused {
		at := origin.Pos{File: e.Path}
		names := strings.Split(e.Path, "/")
		isBelow := names[0] == poolsDir || names[0] == cluster.Dir
		isNodes := names[0] == poolsDir && len(names) <= 4 && len(names) > 2 && names[2] == nodesDir
		switch {
		case isBelow && (len(names) == 1 || isDocument(e.Path)), len(names) == 2 && names[0] == poolsDir, isNodes:
			found.Errorf(at, "refused-entry", "%s: not read; put the file or directory itself here", e.Why)
		case rest < maxRefusedWarnings:
			rest++
			found.Warnf(at, "refused-entry", "%s: left out of the tree; nothing may refer to it", e.Why)
		default:
			rest++
		}
	}
	if rest > maxRefusedWarnings {
		found.Warnf(origin.Pos{}, "refused-entry", "%d more entries are left out of the tree (symbolic links, "+
			"submodules, hostile names)", rest-maxRefusedWarnings)
	}
}

// checkPools warns of pools without a MachineConfigPool. checkPools also warns of documents that a pool has twice: in
// its own directory and inherited from worker.
func checkPools(repo repository, out Result, found *origin.Findings) {
	files := map[string]map[string]string{} // pool → declaring file → fragment
	for _, f := range out.Fragments {
		if files[f.Pool] == nil {
			files[f.Pool] = map[string]string{}
		}
		files[f.Pool][f.File] = f.Name
	}
	for _, o := range out.Cluster {
		if o.Object.GetKind() == cluster.PoolKind {
			checkSelection(repo, out, o, found)
		}
	}
	signatures := signaturePolicies(out.Fragments, workerPool)
	for _, pool := range out.Pools {
		checkOwnSelection(repo, out, pool, found)
		if pool == masterPool || pool == workerPool {
			continue
		}
		at := origin.Pos{File: poolsDir + "/" + pool}
		if _, ok := poolObject(pool, out.Cluster); !ok {
			found.Warnf(at, "pool-missing", "cluster/ has no MachineConfigPool %q; unless the cluster has it, no "+
				"node uses this directory: add cluster/%s.yaml", pool, pool)
		}
		selector, err := Selector(pool, out.Cluster)
		if err != nil {
			found.Errorf(at, "selector", "%v", err)
			continue
		}
		if !selector.Matches(labels.Set{v1alpha1.RoleLabel: workerPool}) {
			continue
		}
		checkInherited(pool, files, found)
		checkSignatures(signatures, signaturePolicies(out.Fragments, pool), pool, found)
	}
}

// checkSelection warns of a MachineConfigPool without documents of its own whose selector matches no document. The
// finding is only a warning, because MachineConfigs that are not in the repository may have the labels.
func checkSelection(repo repository, out Result, o ClusterObject, found *origin.Findings) {
	pool := o.Object.GetName()
	selected, err := Select(out, pool)
	if err != nil || len(selected) > 0 || slices.Contains(out.Pools, pool) || found.HasErrors() {
		return
	}
	found.Warnf(o.Position(repo.fs, "spec.machineConfigSelector"), "empty-selection", "spec.machineConfigSelector "+
		"selects no document of this repository. Unless the cluster has other MachineConfigs with these labels, the "+
		"nodes of pool %s keep their config, and the pool becomes degraded. Add documents to %s/%s, or remove %s", pool,
		poolsDir, pool, o.File)
}

// signaturePolicy is a signature policy among the files of a pool's documents.
type signaturePolicy struct {
	text []byte
	at   origin.Pos
}

// signaturePolicies returns the signature policies of a pool's own documents by namespace; "" is the whole node.
func signaturePolicies(fragments []Fragment, pool string) map[string]signaturePolicy {
	out := map[string]signaturePolicy{}
	for _, f := range fragments {
		if f.Pool != pool || !bytes.Contains(f.MachineConfig.Spec.Config.Raw, []byte("polic")) {
			continue
		}
		config, err := machineconfig.Parse(f.MachineConfig.Spec)
		if err != nil {
			continue // The validation of the whole config reports this error.
		}
		for i, file := range config.Ignition.Storage.Files {
			namespace, ok := kinds.PolicyOf(file.Path)
			text, err := machineconfig.Contents(file.Contents)
			if !ok || err != nil {
				continue
			}
			at, _ := f.Origin.Find(fmt.Sprintf("$.storage.files.%d.path", i))
			out[namespace] = signaturePolicy{text, at}
		}
	}
	return out
}

// checkSignatures warns of a custom pool whose signature policies replace those of worker and require less. The nodes
// of the pool would run images that worker refuses.
func checkSignatures(worker, own map[string]signaturePolicy, pool string, found *origin.Findings) {
	for _, namespace := range slices.Sorted(maps.Keys(own)) {
		mine, inherited := own[namespace], worker[namespace]
		if lost := kinds.Weaker(mine.text, inherited.text); len(lost) > 0 {
			found.Warnf(mine.at, "signatures-weaker", "this policy%s replaces worker's at %s, which requires "+
				"signatures that this one does not require, for %s. Nodes of pool %s run these images unsigned: list "+
				"worker's document in this pool too", ofNamespace(namespace), inherited.at, strings.Join(lost, ", "),
				pool)
		}
	}
	node, ok := own[""]
	if !ok {
		return
	}
	for _, namespace := range slices.Sorted(maps.Keys(worker)) {
		inherited := worker[namespace]
		if _, replaced := own[namespace]; replaced {
			continue
		}
		if lost := kinds.Weaker(inherited.text, node.text); len(lost) > 0 {
			found.Warnf(node.at, "signatures-weaker", "pods of namespace %s use worker's policy at %s, which does "+
				"not require this policy's signatures for %s: list that document in pool %s too", namespace,
				inherited.at, strings.Join(lost, ", "), pool)
		}
	}
}

func ofNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " of namespace " + namespace
}

// checkOwnSelection refuses a pool that has documents of its own and whose selector matches no document.
func checkOwnSelection(repo repository, out Result, pool string, found *origin.Findings) {
	o, ok := poolObject(pool, out.Cluster)
	selected, err := Select(out, pool)
	// A document that cannot be read has no labels to select.
	if !ok || err != nil || len(selected) > 0 || found.HasErrors() {
		return
	}
	found.Errorf(o.Position(repo.fs, "spec.machineConfigSelector"), "empty-selection",
		"spec.machineConfigSelector selects no document of this repository, not even those of %s/%s: select %s: %s",
		poolsDir, pool, v1alpha1.RoleLabel, pool)
}

// checkInherited warns of documents that a custom pool has itself and inherits from worker. Signature policies are no
// such documents: a pool that has policies of its own must list those of worker to keep them.
func checkInherited(pool string, files map[string]map[string]string, found *origin.Findings) {
	var twice []string
	for file, name := range files[pool] {
		if files[workerPool][file] != "" && name != kinds.FragmentName(pool) {
			twice = append(twice, file)
		}
	}
	slices.SortFunc(twice, cmp.Compare)
	at := origin.Pos{File: poolsDir + "/" + pool}
	for _, file := range twice {
		found.Warnf(at, "inherited-twice", "%s is in this pool as %s, and comes with worker's documents as %s too; "+
			"list it in one of them", file, files[pool][file], files[workerPool][file])
	}
}

// checkNodesOnce refuses a node that the tables of two pools have, because a node is in one pool.
func checkNodesOnce(fragments []Fragment, found *origin.Findings) {
	first := map[string]origin.Pos{}
	for _, f := range fragments {
		for node, at := range f.Nodes {
			if other, twice := first[node]; twice {
				found.Errorf(at, kinds.NodeFactsRule,
					"node %s is in %s too: a node is in one pool, so remove one of them",
					node, other)
				continue
			}
			first[node] = at
		}
	}
}

// checkNodesDirectory refuses documents in nodes/ at the top of the repository, which Bunsen does not read. The
// documents of a node belong to its pool.
func checkNodesDirectory(repo repository, reads map[string]bool, found *origin.Findings) {
	reported := map[string]bool{}
	_ = fs.WalkDir(repo.fs, nodesDir, func(file string, e fs.DirEntry, err error) error {
		switch parts := strings.SplitN(file, "/", 3); {
		case err != nil || len(reported) >= maxStrays:
			return fs.SkipAll
		case e.IsDir() || len(parts) < 3 || !isDocument(file) || reads[file] || reported[parts[1]]:
		default:
			reported[parts[1]] = true
			found.Errorf(origin.Pos{File: file}, "nodes-directory", "not read: move the document to the pool of the "+
				"node, %s/<pool>/%s/%s/", poolsDir, nodesDir, parts[1])
		}
		return nil
	})
}

// checkNames refuses two fragments with one name: names of MachineConfigs are unique across pools.
func checkNames(fragments []Fragment, found *origin.Findings) {
	first := map[string]Fragment{}
	for _, f := range fragments {
		before, twice := first[f.Name]
		if !twice {
			first[f.Name] = f
			continue
		}
		found.Errorf(origin.Pos{File: f.File}, "duplicate-name", "the MachineConfig %s comes from %s and from %s; "+
			"rename one of the files", f.Name, before.File, f.File)
	}
}
