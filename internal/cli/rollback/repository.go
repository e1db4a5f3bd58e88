package rollback

import (
	"net/url"
	"strings"

	"github.com/bunsen-os/bunsen/source"
)

// SameRepository reports whether two addresses name the same repository. The transport, the user, and `.git` at the end
// make no difference.
func SameRepository(a, b string) bool {
	x, okX := address(a)
	y, okY := address(b)
	if !okX || !okY || (x.Transport == source.Local) != (y.Transport == source.Local) {
		return false
	}
	if x.Transport == source.Local {
		return strings.TrimSuffix(x.Path, "/.git") == strings.TrimSuffix(y.Path, "/.git")
	}
	samePort := x.Transport != y.Transport || x.Port == y.Port
	return samePort && strings.EqualFold(x.Host, y.Host) && strings.EqualFold(ProjectPath(x), ProjectPath(y))
}

// address reads an address as git does: the form `host:path` needs no user.
func address(raw string) (source.Address, bool) {
	a, err := source.ParseURL(raw)
	if err != nil && !strings.Contains(raw, "@") {
		a, err = source.ParseURL("git@" + raw)
	}
	return a, err == nil
}

// ProjectPath returns the path of a repository on its host, without slashes at the ends and without `.git`.
func ProjectPath(a source.Address) string {
	p := a.Path
	if plain, err := url.PathUnescape(p); err == nil && a.Transport == source.HTTP {
		p = plain
	}
	return strings.TrimSuffix(strings.Trim(p, "/"), ".git")
}
