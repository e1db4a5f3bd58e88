package adopt

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The pools that every cluster has.
const (
	masterPool = "master"
	workerPool = "worker"
)

// placer puts documents into their directories.
type placer struct{ *adoption }

// write puts every document into the repository: into base/ what several pools have alike, else into its pool.
func (a placer) write() {
	resources := map[string][]string{} // pool → what its kustomization lists
	bases := a.bases()
	for _, pool := range slices.Sorted(maps.Keys(a.documents)) {
		for _, d := range a.documents[pool] {
			b := bases[d.file]
			i := slices.IndexFunc(b, func(s shared) bool { return slices.Contains(s.pools, pool) && alike(s.document, d) })
			if i < 0 {
				a.put(poolsDir+"/"+pool, d, a.origin(d))
				resources[pool] = append(resources[pool], d.file)
				continue
			}
			a.put(b[i].dir, d, b[i].head())
			resources[pool] = append(resources[pool], "../../"+b[i].dir+"/"+d.file)
		}
		a.kustomization(pool, resources[pool])
		a.known(pool)
	}
	slices.Sort(a.out.Secrets)
	a.out.Secrets = slices.Compact(a.out.Secrets)
	if len(a.documents) == 0 {
		a.findings = append(a.findings, Finding{Warning: true, Rule: "empty", Message: "no MachineConfig was imported, so that there is no repository yet: it needs a directory pools/<pool>/ with a document in it"})
	}
}

// origin is what the head of a document says of where it comes from.
func (a placer) origin(d document) []string {
	return append([]string{"Imported from " + a.out.Objects[d.config.index].String() + "."}, d.why...)
}

// put writes one document and the files beside it.
func (a placer) put(dir string, d document, head []string) {
	file := dir + "/" + d.file
	if d.open {
		a.out.Secrets = append(a.out.Secrets, file)
	}
	a.out.Files[file] = bytes.Join([][]byte{comment(head...), d.body}, nil)
	files := &a.out.Objects[d.config.index].Files
	*files = append(*files, file)
	for _, l := range slices.Sorted(maps.Keys(d.locals)) {
		a.out.Files[dir+"/"+l] = d.locals[l]
		*files = append(*files, dir+"/"+l)
	}
	for _, s := range d.secrets {
		path := dir + "/" + s
		a.out.Secrets = append(a.out.Secrets, path)
		a.findings = append(a.findings, Finding{
			Warning: true, Rule: "secret", Object: a.out.Objects[d.config.index].String(), At: a.objects[d.config.index].at, Path: path,
			Message: path + " looks like a secret: the node's file keeps its mode, but here everybody reads it who reads the repository; move it to where your secrets are before you push",
		})
	}
}

// kustomization writes the list of a pool's documents, where the directory alone does not say it.
func (a placer) kustomization(pool string, resources []string) {
	plain := !slices.ContainsFunc(resources, func(r string) bool { return strings.HasPrefix(r, "../") || !strings.HasSuffix(r, ".bu") })
	if plain {
		return
	}
	slices.Sort(resources)
	body, err := encode(mapping(key("resources"), paths(resources)))
	if err != nil { // cannot be: it is a list of words
		a.findings = append(a.findings, Finding{Warning: true, Rule: "yaml", Message: err.Error()})
	}
	a.out.Files[poolsDir+"/"+pool+"/"+kustomization+".yaml"] = bytes.Join([][]byte{comment("The documents of pool " + pool + ". They are merged in order of their MachineConfigs' names, not of this list."), body}, nil)
}

func paths(items []string) *yaml.Node {
	n := sequence()
	for _, p := range items {
		n.Content = append(n.Content, str(p))
	}
	return n
}

// known tells of a pool that nothing declares.
func (a placer) known(pool string) {
	if _, ok := a.pools[pool]; ok || custom(pool) == 0 {
		return
	}
	a.findings = append(a.findings, Finding{
		Warning: true, Rule: "pool-missing", Path: poolsDir + "/" + pool,
		Message: fmt.Sprintf("the input has no MachineConfigPool %s, so that no node may ever take pools/%s; import it too: oc get machineconfigpools -o yaml", pool, pool),
	})
}

// shared is a document that several pools have alike.
type shared struct {
	document document
	pools    []string
	// origins are the MachineConfigs that it comes from, one for each pool.
	origins []string
	dir     string
}

// head is what the head of the document says of where it comes from.
func (s shared) head() []string {
	return append([]string{"Imported from MachineConfigs " + strings.Join(s.origins, ", ") + "."}, s.document.why...)
}

// bases finds documents that several pools have alike, by file. A pool that takes worker's documents anyway keeps its own
// copy beside worker's: out of one file it would have them twice.
func (a placer) bases() map[string][]shared {
	out := map[string][]shared{}
	pools := slices.Sorted(maps.Keys(a.documents))
	slices.SortStableFunc(pools, func(p, q string) int { return custom(p) - custom(q) })
	for _, pool := range pools {
		for _, d := range a.documents[pool] {
			if !d.shareable {
				continue
			}
			all := out[d.file]
			i := slices.IndexFunc(all, func(s shared) bool { return alike(s.document, d) && !a.inherits(append(slices.Clone(s.pools), pool)) })
			if i < 0 {
				all, i = append(all, shared{document: d}), len(all)
			}
			all[i].pools, all[i].origins = append(all[i].pools, pool), append(all[i].origins, d.config.name)
			out[d.file] = all
		}
	}
	for file, all := range out {
		out[file] = slices.DeleteFunc(all, func(s shared) bool { return len(s.pools) < 2 })
		for i := range out[file] {
			out[file][i].dir = baseDir
			if i > 0 { // pools have it in several ways
				out[file][i].dir = baseDir + "/variant-" + strconv.Itoa(i+1)
			}
		}
	}
	return out
}

// custom is 0 for the pools that every cluster has and 1 for the others.
func custom(pool string) int {
	if pool == masterPool || pool == workerPool {
		return 0
	}
	return 1
}

// inherits tells whether one of the pools takes worker's documents too, and worker is among them.
func (a placer) inherits(pools []string) bool {
	return slices.Contains(pools, workerPool) && slices.ContainsFunc(pools, func(p string) bool { return p != workerPool && a.takesWorkers(p) })
}

func (a placer) takesWorkers(pool string) bool {
	p, ok := a.pools[pool]
	if !ok {
		return pool != masterPool
	}
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.MachineConfigSelector)
	return err != nil || selector.Matches(labels.Set{v1alpha1.RoleLabel: workerPool})
}

// alike tells whether two documents are the same files, wherever they come from.
func alike(a, b document) bool {
	return a.shareable && b.shareable && a.file == b.file && bytes.Equal(a.body, b.body) && slices.Equal(a.why, b.why) &&
		maps.EqualFunc(a.locals, b.locals, bytes.Equal)
}
