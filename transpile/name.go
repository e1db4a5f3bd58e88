package transpile

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

const (
	// defaultNumber stands before the names of documents that have none; the merge goes by name, later wins.
	defaultNumber = "50"
	// maxNumbered is how many documents of a pool may share a name but for its last digit: -10 would sort before -2.
	maxNumbered = 10
)

var numbered = regexp.MustCompile(`^([0-9]+)-(.+)$`)

// fragmentName is the name of the MachineConfig that a document of a pool becomes: `10-chrony` in pool worker is
// `10-worker-chrony`.
func fragmentName(pool, document string) string {
	if m := numbered.FindStringSubmatch(document); m != nil {
		return m[1] + "-" + pool + "-" + m[2]
	}
	return defaultNumber + "-" + pool + "-" + document
}

// generatedName is the name of what the documents of a kind become, but for their number. Documents of all other kinds
// have names of their own.
func generatedName(pool string, kind overlay.Kind) string {
	switch kind {
	case overlay.KubeletConfig, overlay.KubeletConfiguration:
		return "99-" + pool + "-generated-kubelet"
	case overlay.ContainerRuntimeConfig:
		return "99-" + pool + "-generated-containerruntime"
	case overlay.SSHKeys:
		return "99-" + pool + "-ssh"
	default:
		return ""
	}
}

// inPool gives the documents of a pool their names. Those that share one are numbered from the second on, in the order
// of their files. It keeps the documents' order.
func inPool(pool string, docs []overlay.Document) ([]named, []origin.Finding) {
	out := make([]named, len(docs))
	shared := map[string][]int{}
	for i, d := range docs {
		out[i].doc = d
		if name := generatedName(pool, d.Kind); name != "" {
			shared[name] = append(shared[name], i)
		} else if d.Kind != overlay.MachineConfig {
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
				found = append(found, origin.Finding{
					Rule: "too-many", At: origin.Pos{File: docs[i].File},
					Message: "a pool has at most " + strconv.Itoa(maxNumbered) + " documents of this kind, and this is one more; join some of them",
				})
			}
		}
	}
	return out, found
}

// badName says what is wrong with a MachineConfig's name, or nothing.
func badName(name string) string {
	if strings.HasPrefix(name, "rendered-") {
		return "names that begin with rendered- are the renderer's"
	}
	return strings.Join(validation.IsDNS1123Subdomain(name), "; ")
}
