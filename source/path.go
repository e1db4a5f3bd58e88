package source

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// CleanPath reads a GitSource's spec.path: the folder's path from the repository's root, slash separated, empty for the
// root itself. `./infra/` is `infra`. The error is a Stalled InvalidSpec fault that says what to write.
func CleanPath(p string) (string, error) {
	switch {
	case strings.HasPrefix(p, "/"):
		return "", invalid("path %q begins with a slash: write it from the repository's root, such as infra/prod", p)
	case strings.Contains(p, `\`):
		return "", invalid("path %q holds a backslash: separate folders by /", p)
	}
	for _, name := range strings.Split(p, "/") {
		if name == ".." {
			return "", invalid("path %q contains ..: write it from the repository's root", p)
		}
		if reason := RefuseName(name); reason != "" && name != "" && name != "." {
			return "", invalid("path %q: %s", p, reason)
		}
	}
	clean := path.Clean(p)
	if clean == "." {
		clean = ""
	}
	return clean, nil
}

// NoSuchPath returns the error for a folder that a revision does not have: a Stalled PathNotFound fault. The parameter
// parent is the deepest existing folder of the path, and folders are the folders in parent.
func NoSuchPath(p string, at Revision, parent string, folders []string) error {
	where := "at the root there are"
	if parent != "" {
		where = fmt.Sprintf("in %q there are", parent)
	}
	folders = slices.Clone(folders)
	slices.Sort(folders)
	return fault.NewStalled(v1alpha1.ReasonPathNotFound,
		fmt.Errorf("no folder %q in %s: %s the folders: %s", p, at.Short(), where, listText(folders)))
}
