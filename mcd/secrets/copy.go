package secrets

import (
	"encoding/json"
	"slices"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Path is the file with the Copy of a machine. Only root can read it.
const Path = host.StateDir + "/secrets.json"

// Contents are the contents of files, by path.
type Contents map[string][]byte

// has reports whether the contents of all paths are known.
func (c Contents) has(paths []string) bool {
	return !slices.ContainsFunc(paths, func(p string) bool { _, known := c[p]; return !known })
}

// Copy is what a machine keeps of the secrets of its configs, so that it needs no server for a config in force, an
// update that has begun, or a rollback. A config is named as v1alpha1.ConfigAt does.
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
