package adopt

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Directories of a repository, and the directory that no pool reads.
const (
	poolsDir   = "pools"
	baseDir    = "base"
	clusterDir = "cluster"
	asideDir   = "unsupported"
)

// stemOf returns the stem of the file that would give a document this name. For example, 10-worker-chrony of pool
// worker comes from 10-chrony. ok is false if no file name gives the name.
func stemOf(name, pool string) (stem string, ok bool) {
	digits := len(name) - len(strings.TrimLeft(name, "0123456789"))
	rest, ok := strings.CutPrefix(name[digits:], "-"+pool+"-")
	if digits == 0 || !ok || rest == "" {
		return "", false
	}
	return name[:digits] + "-" + rest, true
}

// badName returns the reason why a MachineConfig of this name is not allowed in a repository, or "".
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

// freePath returns dir/stem+ext. If that path is in use, freePath adds a number before the extension.
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
