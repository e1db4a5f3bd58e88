package transpile

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

const (
	// defaultNumber is the number in the MachineConfig's name if the document's name begins with no number. The
	// renderer merges documents in the order of their names, and later documents override earlier documents.
	defaultNumber = "50"
	// maxNumbered is how many documents of a pool may have names that differ only in a last digit. With two digits, the
	// order would change: the name that ends with -10 sorts before the one with -2.
	maxNumbered = 10
)

var numbered = regexp.MustCompile(`^([0-9]+)-(.+)$`)

// fragmentName returns the name of the MachineConfig of a document: `10-chrony` in pool worker is
// `10-worker-chrony`.
func fragmentName(pool, document string) string {
	if m := numbered.FindStringSubmatch(document); m != nil {
		return m[1] + "-" + pool + "-" + m[2]
	}
	return defaultNumber + "-" + pool + "-" + document
}

// generatedName returns the name of the MachineConfig for a kind of document, without a number. generatedName returns
// "" for a kind whose documents have their own names.
func generatedName(pool string, kind documents.Kind) string {
	switch kind {
	case documents.KubeletConfig, documents.KubeletConfiguration:
		return "99-" + pool + "-generated-kubelet"
	case documents.ContainerRuntimeConfig:
		return "99-" + pool + "-generated-containerruntime"
	case documents.SSHKeys:
		return "99-" + pool + "-ssh"
	default:
		return ""
	}
}

// inPool assigns names to the documents of a pool. inPool joins all documents about registries. If several documents
// have the same name, all but the first get a number, in the order of their files. inPool does not change the order of
// the documents.
func inPool(pool string, docs []documents.Document) ([]named, []origin.Finding) {
	docs, joined := withoutRegistries(docs)
	out := make([]named, len(docs), len(docs)+1)
	shared := map[string][]int{}
	for i, d := range docs {
		out[i].doc = d
		if name := generatedName(pool, d.Kind); name != "" {
			shared[name] = append(shared[name], i)
		} else if d.Kind != documents.MachineConfig {
			out[i].name = fragmentName(pool, d.Name)
		}
	}
	var found []origin.Finding
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		of := shared[name]
		slices.SortFunc(of, func(i, j int) int {
			return cmp.Or(cmp.Compare(docs[i].File, docs[j].File), cmp.Compare(docs[i].Name, docs[j].Name))
		})
		for n, i := range of {
			out[i].name = name
			if n > 0 {
				out[i].name += "-" + strconv.Itoa(n)
			}
			if n >= maxNumbered {
				found = append(found, origin.Errorf(origin.Pos{File: docs[i].File}, "too-many",
					"a pool has at most %d documents of this kind, and this is one more; join some of them",
					maxNumbered))
			}
		}
	}
	if len(joined) > 0 {
		out = append(out, named{doc: joined[0], name: kinds.FragmentName(pool), joined: joined[1:]})
	}
	return out, found
}

// withoutRegistries separates the documents about registries. It returns them in the order of their files.
func withoutRegistries(docs []documents.Document) (others, about []documents.Document) {
	for _, d := range docs {
		if d.Kind.IsAboutRegistries() {
			about = append(about, d)
		} else {
			others = append(others, d)
		}
	}
	slices.SortStableFunc(about, func(a, b documents.Document) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
	})
	return others, about
}

// notInNames matches what a name of a MachineConfig cannot have.
var notInNames = regexp.MustCompile(`[^a-z0-9.]+`)

// betterName proposes a name for a file whose name cannot be that of a MachineConfig; "" if there is none.
func betterName(file string) string {
	ext := path.Ext(file)
	stem := strings.TrimSuffix(path.Base(file), ext)
	if better := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(stem), "-"), "-."); better != "" &&
		better != stem {
		return ", for example to " + better + ext
	}
	return ""
}

// badName returns why a MachineConfig's name is invalid, or "".
func badName(name string) string {
	if strings.HasPrefix(name, "rendered-") {
		return "names that begin with rendered- are the renderer's"
	}
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return ""
	}
	return "write it in lowercase letters, digits, - and ., beginning and ending with a letter or digit, at most " +
		"253 in all"
}
