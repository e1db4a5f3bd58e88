package secrets

import (
	"path"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/mcd/plan"
)

// PathsOf returns the paths of a config's files whose contents a server resolves. The error lists the invalid
// references.
func PathsOf(c plan.Config) ([]string, error) {
	flat, err := machineconfig.Flat(c.Config)
	if err != nil { // Such a config has no valid references, and machineconfig.Check refuses it.
		flat = c.Config
	}
	files, err := machineconfig.SecretFiles(flat)
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	return paths, err
}

// Resolve returns a config with the contents of its secrets. It leaves out files whose contents are not known, and hard
// links to them. The config marks the other files as secret, so that no report shows them.
func Resolve(c plan.Config, contents Contents) (plan.Config, error) {
	paths, err := PathsOf(c)
	if err != nil || len(paths) == 0 {
		return c, err
	}
	flat := machineconfig.Flattened(c.Config)
	hidden, gone := map[string]bool{}, map[string]bool{}
	s := &flat.Ignition.Storage
	s.Files = slices.DeleteFunc(slices.Clone(s.Files), func(f ign.File) bool {
		if !slices.Contains(paths, f.Path) {
			return false
		}
		_, known := contents[f.Path]
		hidden[path.Clean(f.Path)], gone[path.Clean(f.Path)] = known, !known
		return !known
	})
	s.Links = withoutHanging(s.Links, hidden, gone)
	if c.Config, err = machineconfig.ResolveSecrets(flat, contents); err != nil {
		return plan.Config{}, err
	}
	c.Secrets = slices.Clone(c.Secrets)
	for p, is := range hidden {
		if is {
			c.Secrets = append(c.Secrets, pattern(p))
		}
	}
	slices.Sort(c.Secrets)
	return c, nil
}

// withoutHanging returns links without the hard links to files that are gone. It adds hard links to hidden files to
// these.
func withoutHanging(links []ign.Link, hidden, gone map[string]bool) []ign.Link {
	isHard := func(l ign.Link) bool { return l.Hard != nil && *l.Hard && l.Target != nil }
	for changed := true; changed; { // A hard link may lead to another one.
		changed = false
		for _, l := range links {
			if !isHard(l) {
				continue
			}
			at, to := path.Clean(l.Path), path.Clean(path.Join("/", *l.Target))
			changed = changed || hidden[to] && !hidden[at] || gone[to] && !gone[at]
			hidden[at], gone[at] = hidden[at] || hidden[to], gone[at] || gone[to]
		}
	}
	return slices.DeleteFunc(slices.Clone(links), func(l ign.Link) bool {
		return isHard(l) && gone[path.Clean(l.Path)]
	})
}

// pattern returns the pattern of secretmask.Paths that matches one path.
func pattern(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// Owned returns a config in which all files with secrets exist, with other contents: for questions about paths.
func Owned(c plan.Config) (plan.Config, error) {
	paths, err := PathsOf(c)
	if err != nil {
		return c, err
	}
	none := Contents{}
	for _, p := range paths {
		none[p] = nil
	}
	return Resolve(c, none)
}
