package transpile

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultNumber stands before the names of documents that have none; the merge goes by name, later wins.
const defaultNumber = "50"

var numbered = regexp.MustCompile(`^([0-9]+)-(.+)$`)

// fragmentName is the name of the MachineConfig that a document of a pool becomes: `10-chrony` in pool worker is
// `10-worker-chrony`.
func fragmentName(pool, document string) string {
	if m := numbered.FindStringSubmatch(document); m != nil {
		return m[1] + "-" + pool + "-" + m[2]
	}
	return defaultNumber + "-" + pool + "-" + document
}

// badName says what is wrong with a MachineConfig's name, or nothing.
func badName(name string) string {
	if strings.HasPrefix(name, "rendered-") {
		return "names that begin with rendered- are the renderer's"
	}
	return strings.Join(validation.IsDNS1123Subdomain(name), "; ")
}
