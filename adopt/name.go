package adopt

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Directories of a repository, and the one that nothing reads.
const (
	poolsDir   = "pools"
	baseDir    = "base"
	clusterDir = "cluster"
	asideDir   = "unsupported"
)

// maxSlug leaves room in a file's name for a number and an extension.
const maxSlug = 200

// stemOf is the inverse of the name that a document's file gives: 10-worker-chrony of pool worker comes from 10-chrony.
// ok is false for names that no file gives.
func stemOf(name, pool string) (stem string, ok bool) {
	digits := len(name) - len(strings.TrimLeft(name, "0123456789"))
	rest, ok := strings.CutPrefix(name[digits:], "-"+pool+"-")
	if digits == 0 || !ok || rest == "" {
		return "", false
	}
	return name[:digits] + "-" + rest, true
}

// badName says why a MachineConfig of this name cannot be in a repository, or nothing.
func badName(name string) string {
	if name == "" {
		return "it has no metadata.name"
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Sprintf("%q is no name for an object: use lower-case letters, digits, - and dots, at most %d", name, validation.DNS1123SubdomainMaxLength)
	}
	return ""
}

var odd = regexp.MustCompile(`([^a-z0-9._-]|\.\.+|--+)+`)

// slug makes a file's name of any text: lower-case letters, digits, dots, - and _, and never one that means another
// directory or is hidden.
func slug(text string) string {
	s := odd.ReplaceAllString(strings.ToLower(text), "-")
	s = strings.Trim(s, "-._")
	if len(s) > maxSlug {
		s = strings.Trim(s[:maxSlug], "-._")
	}
	if s == "" {
		return "unnamed"
	}
	return s
}

// free returns dir/stem+ext, or with a number before the extension where that path is taken.
func (a *adoption) free(dir, stem, ext string) string {
	file := dir + "/" + stem + ext
	for n := 2; ; n++ {
		if _, taken := a.out.Files[file]; !taken {
			return file
		}
		file = dir + "/" + stem + "-" + strconv.Itoa(n) + ext
	}
}

// roleOf is the role of an object that nobody has read yet, or "".
func roleOf(o object) string {
	meta, _ := o.content["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	role, _ := labels[v1alpha1.RoleLabel].(string)
	return role
}
