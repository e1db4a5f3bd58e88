package adopt

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The pools that every cluster has.
const (
	masterPool = "master"
	workerPool = "worker"
)

// writeDocuments puts each document into the directory of its pool, or into base/ if several pools have the same one.
func (a *adoption) writeDocuments() {
	resources := map[string][]string{} // resources has the resources that the kustomization of each pool lists.
	bases := a.sharedDocuments()
	for _, pool := range slices.Sorted(maps.Keys(a.documents)) {
		for _, d := range a.documents[pool] {
			b := bases[d.file]
			i := slices.IndexFunc(b, func(s shared) bool {
				return slices.Contains(s.pools, pool) && isSameDocument(s.document, d)
			})
			if i < 0 {
				a.putDocument(poolsDir+"/"+pool, d, a.originLines(d))
				resources[pool] = append(resources[pool], d.file)
				continue
			}
			a.putDocument(b[i].dir, d, b[i].head())
			resources[pool] = append(resources[pool], "../../"+b[i].dir+"/"+d.file)
		}
		a.writeKustomization(pool, resources[pool])
		a.reportMissingPool(pool)
	}
	slices.Sort(a.out.Secrets)
	a.out.Secrets = slices.Compact(a.out.Secrets)
	if len(a.documents) == 0 {
		a.findings = append(a.findings, Finding{Warning: true, Rule: "empty", Message: "no MachineConfig was " +
			"imported, so that there is no repository yet: it needs a directory pools/<pool>/ with a document in it"})
	}
}

// originLines are for the comment at the top of a document.
func (a *adoption) originLines(d document) []string {
	return append([]string{"Imported from " + a.out.Objects[d.config.index].String() + "."}, d.why...)
}

func (a *adoption) putDocument(dir string, d document, head []string) {
	file := dir + "/" + d.file
	if d.open {
		a.out.Secrets = append(a.out.Secrets, file)
	}
	a.out.Files[file] = bytes.Join([][]byte{Comment(head...), d.body}, nil)
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
			Warning: true, Rule: "secret", Object: a.out.Objects[d.config.index].String(),
			At: a.objects[d.config.index].at, Path: path,
			Message: path + ": only its owner may read it, it has a credential, or you name it. .gitignore leaves " +
				"it out " +
				"of git: run `bunsen secret encrypt` on it before you remove that line",
		})
	}
}

// writeKustomization writes the list of a pool's documents if the files of the directory are not the whole list.
func (a *adoption) writeKustomization(pool string, resources []string) {
	plain := !slices.ContainsFunc(resources, func(r string) bool {
		return strings.HasPrefix(r, "../") || !strings.HasSuffix(r, ".bu")
	})
	if plain {
		return
	}
	slices.Sort(resources)
	body, err := Encode(Mapping(Key("resources"), list(resources)))
	if err != nil { // This error cannot occur, because the value is a list of words.
		a.findings = append(a.findings, Finding{Warning: true, Rule: "yaml", Message: err.Error()})
	}
	a.out.Files[poolsDir+"/"+pool+"/"+kustomization+".yaml"] = bytes.Join(
		[][]byte{Comment("The documents of pool " + pool + ". They are merged in order of their " +
			"MachineConfigs' names, not of this list."), body}, nil)
}

// reportMissingPool reports a pool that no MachineConfigPool declares.
func (a *adoption) reportMissingPool(pool string) {
	if _, ok := a.pools[pool]; ok || customRank(pool) == 0 {
		return
	}
	a.findings = append(a.findings, Finding{
		Warning: true, Rule: "pool-missing", Path: poolsDir + "/" + pool,
		Message: fmt.Sprintf("the input has no MachineConfigPool %s, so that no node may ever take pools/%s; import "+
			"it too: oc get machineconfigpools -o yaml", pool, pool),
	})
}

// shared is a document that is the same in several pools.
type shared struct {
	document document
	pools    []string
	// the MachineConfigs that the document comes from, one for each pool
	origins []string
	dir     string
}

// head returns the lines with the origins for the comment at the top.
func (s shared) head() []string {
	if s.document.of != "" {
		return append([]string{"Imported from " + s.document.of + "."}, s.document.why...)
	}
	return append([]string{"Imported from MachineConfigs " + strings.Join(s.origins, ", ") + "."}, s.document.why...)
}

// sharedDocuments finds documents that are the same in several pools, by file. A pool that inherits worker's documents
// keeps its own copy, because otherwise it would contain a shared document twice.
func (a *adoption) sharedDocuments() map[string][]shared {
	out := map[string][]shared{}
	pools := slices.Sorted(maps.Keys(a.documents))
	slices.SortStableFunc(pools, func(p, q string) int { return customRank(p) - customRank(q) })
	for _, pool := range pools {
		for _, d := range a.documents[pool] {
			if !d.shareable {
				continue
			}
			all := out[d.file]
			i := slices.IndexFunc(all, func(s shared) bool {
				return isSameDocument(s.document, d) && !a.inheritsWorker(append(slices.Clone(s.pools), pool))
			})
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
			if i > 0 { // The pools have different versions of the document.
				out[file][i].dir = baseDir + "/variant-" + strconv.Itoa(i+1)
			}
		}
	}
	return out
}

// customRank returns 0 for the pools that every cluster has, and 1 for other pools.
func customRank(pool string) int {
	if pool == masterPool || pool == workerPool {
		return 0
	}
	return 1
}

// inheritsWorker reports whether a pool inherits the documents of worker, which is also among them.
func (a *adoption) inheritsWorker(pools []string) bool {
	return slices.Contains(pools, workerPool) && slices.ContainsFunc(pools, func(p string) bool {
		return p != workerPool && a.takesWorkerDocuments(p)
	})
}

func (a *adoption) takesWorkerDocuments(pool string) bool {
	p, ok := a.pools[pool]
	if !ok {
		return pool != masterPool
	}
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.MachineConfigSelector)
	return err != nil || selector.Matches(labels.Set{v1alpha1.RoleLabel: workerPool})
}

// isSameDocument reports whether two documents consist of the same files; their origins may differ.
func isSameDocument(a, b document) bool {
	return a.shareable && b.shareable && a.file == b.file && bytes.Equal(a.body, b.body) &&
		slices.Equal(a.why, b.why) &&
		maps.EqualFunc(a.locals, b.locals, bytes.Equal)
}

// Directories of a repository, and the directory that no pool reads.
const (
	poolsDir   = "pools"
	baseDir    = "base"
	clusterDir = "cluster"
	asideDir   = "unsupported"
)

// stemOf returns the stem of the file that would give a document this name, such as 10-chrony for 10-worker-chrony of
// pool worker; false if there is none.
func stemOf(name, pool string) (stem string, ok bool) {
	digits := len(name) - len(strings.TrimLeft(name, "0123456789"))
	rest, ok := strings.CutPrefix(name[digits:], "-"+pool+"-")
	if digits == 0 || !ok || rest == "" {
		return "", false
	}
	return name[:digits] + "-" + rest, true
}

// badName returns why a MachineConfig of this name is not allowed in a repository, or "".
func badName(name string) string {
	if name == "" {
		return "it has no metadata.name"
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Sprintf("%q is no name for an object: use lower-case letters, digits, - and dots, at most %d", name,
			validation.DNS1123SubdomainMaxLength)
	}
	return ""
}

// freePath returns dir/stem+ext, with a number before the extension if that path is in use.
func (a *adoption) freePath(dir, stem, ext string) string {
	file := dir + "/" + stem + ext
	for n := 2; ; n++ {
		if _, taken := a.out.Files[file]; !taken {
			return file
		}
		file = dir + "/" + stem + "-" + strconv.Itoa(n) + ext
	}
}

// roleOf returns the role label of an object that is not decoded yet, or "".
func roleOf(o object) string {
	meta, _ := o.content["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	role, _ := labels[v1alpha1.RoleLabel].(string)
	return role
}
