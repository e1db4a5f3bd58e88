package secrets

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"

	ign "github.com/bunsen-os/bunsen/api/ignition"
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

// Path is the file with the Copy of a machine. Only root can read it.
const Path = host.StateDir + "/secrets.json"

// Contents are the contents of files, by path.
type Contents map[string][]byte

// has reports whether the contents of all paths are known.
func (c Contents) has(paths []string) bool {
	return !slices.ContainsFunc(paths, func(p string) bool { _, known := c[p]; return !known })
}

// Copy is what a machine keeps of the secrets of its configs, so that it needs no server for a config in force, an
// update that has begun, or a rollback. The name of a config is the text of a v1alpha1.ConfigVersion.
type Copy struct {
	// InForce is the config in force, and Before is the config that was in force before it; each may have no secrets.
	InForce string `json:"inForce,omitempty"`
	Before  string `json:"before,omitempty"`
	// Contents of secrets, by config.
	Contents map[string]Contents `json:"contents"`
}

// ParseCopy reads the content of a Copy's file. A damaged file is an empty Copy: the daemon gets the contents again.
func ParseCopy(text []byte) Copy {
	var c Copy
	if json.Unmarshal(text, &c) != nil {
		return Copy{}
	}
	return c
}

// Known returns the contents of a config's secrets, if the Copy has the contents of all paths.
func (c Copy) Known(at string, paths []string) (Contents, bool) {
	known, has := c.Contents[at]
	return known, has && known.has(paths)
}

// With returns the Copy with the contents of one more config. The config inForce is the config in force. Of the other
// configs, the Copy keeps the config in force and the one before it.
func (c Copy) With(at string, contents Contents, inForce string) Copy {
	out := c.Confirmed(inForce)
	out.Contents[at] = contents
	return out
}

// Confirmed returns the Copy of a machine with a config in force: the contents of that config and of the one before it.
// If at is "", the machine has no config yet.
func (c Copy) Confirmed(at string) Copy {
	out := Copy{InForce: c.InForce, Before: c.Before, Contents: map[string]Contents{}}
	if at != "" && at != c.InForce {
		out.InForce, out.Before = at, c.InForce
	}
	for _, name := range []string{out.InForce, out.Before} {
		if known, has := c.Contents[name]; has {
			out.Contents[name] = known
		}
	}
	return out
}

// IsEmpty reports whether the Copy has no contents.
func (c Copy) IsEmpty() bool { return len(c.Contents) == 0 }

// RevisionError reports that the server has another revision of the secrets than the node is assigned.
type RevisionError struct {
	// Config is the name of the rendered config.
	Config string
	// Has is the revision of the server. Wants is the revision that the node is assigned.
	Has, Wants string
}

// Error names both revisions.
func (e *RevisionError) Error() string {
	return fmt.Sprintf("the server has revision %q of the secrets of %s, and the node is assigned %q: the controller "+
		"assigns the published revision, see ConfigMap %s/%s",
		short(e.Has), e.Config, short(e.Wants), v1alpha1.ServerNamespace, v1alpha1.SecretsConfigMap)
}

// Check returns the contents of an answer of the server. The parameter at is the desired config with the revision of
// its secrets, and paths are the files of the config whose contents a server resolves. The answer must have exactly
// these files. The error has no contents, and is a *RevisionError if the server has another revision.
func Check(answer v1alpha1.NodeSecrets, at string, paths []string) (Contents, error) {
	want := v1alpha1.ParseConfigVersion(at)
	switch {
	case answer.Config != want.Config:
		return nil, fmt.Errorf("the server sent the secrets of %q", short(answer.Config))
	case answer.Revision != want.Secrets:
		return nil, &RevisionError{want.Config, answer.Revision, want.Secrets}
	}
	out, left := Contents{}, v1alpha1.MaxSecretBytes
	for _, f := range answer.Files {
		left -= len(f.Contents)
		_, twice := out[f.Path]
		switch {
		case !slices.Contains(paths, f.Path):
			return nil, fmt.Errorf("the server sent a secret for the path %q, which does not refer to one in %s",
				short(f.Path), want.Config)
		case twice:
			return nil, fmt.Errorf("the server sent two contents for the path %q", short(f.Path))
		case left < 0:
			return nil, fmt.Errorf("the server sent more than %d MiB of secrets", v1alpha1.MaxSecretBytes>>20)
		}
		out[f.Path] = slices.Clone(f.Contents)
	}
	for _, p := range paths {
		if _, has := out[p]; !has {
			return nil, fmt.Errorf("the server did not send the secret of %s", p)
		}
	}
	return out, nil
}

// longest is how many bytes of a text of the server an error has.
const longest = 80

// short returns the begin of a text of the server.
func short(text string) string {
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}
