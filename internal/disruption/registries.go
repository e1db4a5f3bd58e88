package disruption

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Paths of the files that decide where CRI-O gets images from.
const (
	RegistriesFile = "/etc/containers/registries.conf"
	// RegistriesDropIns are read after RegistriesFile, in lexical order.
	RegistriesDropIns = "/etc/containers/registries.conf.d"
)

// IsRegistriesFile reports whether a path is Conf or a drop-in.
func IsRegistriesFile(name string) bool {
	return name == RegistriesFile || path.Dir(name) == RegistriesDropIns && path.Ext(name) == ".conf"
}

// config is the part of registries.conf (version 2) that decides where images come from.
type config struct {
	Search     []string   `toml:"unqualified-search-registries"`
	Registries []registry `toml:"registry"`
	// A drop-in set Search.
	replaced bool
}

type registry struct {
	Prefix             string   `toml:"prefix"`
	Location           string   `toml:"location"`
	Blocked            bool     `toml:"blocked"`
	Insecure           bool     `toml:"insecure"`
	MirrorByDigestOnly bool     `toml:"mirror-by-digest-only"`
	Mirrors            []mirror `toml:"mirror"`
}

type mirror struct {
	Location string `toml:"location"`
	Insecure bool   `toml:"insecure"`
	Pull     string `toml:"pull-from-mirror"`
}

func (r registry) name() string {
	if r.Prefix != "" {
		return r.Prefix
	}
	return r.Location
}

// byDigest reports whether the mirror serves only images that are named by digest, which are the same everywhere.
func (r registry) byDigest(m mirror) bool {
	return m.Pull == "digest-only" || m.Pull == "" && r.MirrorByDigestOnly
}

// UnsafeRegistriesChange returns why a change of a file could give a running pod another image, or none; "" if it is
// safe: if it appends search registries to RegistriesFile or adds mirrors for digests. All files of both configs are
// compared together, because an entry of a drop-in replaces that of an earlier file.
func UnsafeRegistriesChange(name string, from, to []ign.File) string {
	if name == RegistriesFile && !slices.ContainsFunc(to, isConf) {
		return "the file is removed"
	}
	if reason := unsafeRest(name, from, to); reason != "" {
		return reason
	}
	a, err := effective(from)
	if err != nil {
		return fmt.Sprintf("the old file cannot be read: %v", err)
	}
	b, err := effective(to)
	if err != nil {
		return fmt.Sprintf("the new file cannot be read: %v", err)
	}
	if len(b.Search) < len(a.Search) || !slices.Equal(a.Search, b.Search[:len(a.Search)]) {
		return "unqualified-search-registries changes other than by appending"
	}
	if b.replaced && !slices.Equal(a.Search, b.Search) {
		return "a drop-in replaces unqualified-search-registries"
	}
	return unsafeRegistries(a, b)
}

// unsafeRegistries is "" if the registries differ in no unsafe way.
func unsafeRegistries(a, b config) string {
	for _, old := range a.Registries {
		i := slices.IndexFunc(b.Registries, func(r registry) bool { return r.name() == old.name() })
		if i < 0 {
			return "registry " + old.name() + " is removed"
		}
		if reason := unsafeRegistry(old, b.Registries[i]); reason != "" {
			return reason
		}
	}
	for _, r := range b.Registries {
		if !slices.ContainsFunc(a.Registries, func(old registry) bool { return old.name() == r.name() }) {
			if reason := unsafeNewRegistry(r); reason != "" {
				return reason
			}
		}
	}
	return ""
}

func isConf(f ign.File) bool { return f.Path == RegistriesFile }

// effective merges all files of a config. A registry of a later file replaces that of an earlier one.
func effective(files []ign.File) (config, error) {
	var all config
	read := slices.DeleteFunc(slices.Clone(files), func(f ign.File) bool { return !IsRegistriesFile(f.Path) })
	// registries.conf comes before registries.conf.d/
	slices.SortFunc(read, func(a, b ign.File) int { return cmp.Compare(a.Path, b.Path) })
	for _, f := range read {
		var c config
		if err := c.read(f); err != nil {
			if isConf(f) {
				return config{}, err
			}
			return config{}, fmt.Errorf("%s: %w", f.Path, err)
		}
		if c.Search != nil {
			all.Search, all.replaced = c.Search, !isConf(f)
		}
		for _, r := range c.Registries {
			all.Registries = slices.DeleteFunc(all.Registries, func(old registry) bool {
				return !isConf(f) && old.name() == r.name()
			})
			all.Registries = append(all.Registries, r)
		}
	}
	return all, nil
}

// unsafeRest returns why a drop-in changes more than registries, such as short names, or "".
func unsafeRest(name string, from, to []ign.File) string {
	if name == RegistriesFile {
		return ""
	}
	rest := func(files []ign.File) map[string]any {
		all := map[string]any{}
		for _, f := range files {
			if f.Path == name {
				data, _ := textOf(f)
				_, _ = toml.Decode(data, &all) // effective reports what cannot be read
			}
		}
		delete(all, "registry")
		delete(all, "unqualified-search-registries")
		return all
	}
	if !reflect.DeepEqual(rest(from), rest(to)) {
		return "a drop-in changes more than registries"
	}
	return ""
}

func (c *config) read(f ign.File) error {
	data, err := textOf(f)
	if err != nil {
		return err
	}
	_, err = toml.Decode(data, c)
	return err
}

// textOf returns the text of a file with what the config appends to it. It returns an error if only the node knows the
// text.
func textOf(f ign.File) (string, error) {
	if f.Contents.Source == nil && len(f.Append) > 0 {
		return "", errors.New("the config appends to the file of the node")
	}
	var all strings.Builder
	for _, part := range append([]ign.Resource{f.Contents}, f.Append...) {
		text, err := machineconfig.Contents(part)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

func unsafeRegistry(old, now registry) string {
	if old.Prefix != now.Prefix || old.Location != now.Location || old.Blocked != now.Blocked ||
		old.Insecure != now.Insecure || old.MirrorByDigestOnly != now.MirrorByDigestOnly {
		return "registry " + old.name() + " changes other than by a new mirror"
	}
	for _, m := range old.Mirrors {
		if !slices.Contains(now.Mirrors, m) {
			return "registry " + old.name() + " loses or changes mirror " + m.Location
		}
	}
	for _, m := range now.Mirrors {
		if !slices.Contains(old.Mirrors, m) && !now.byDigest(m) {
			return "registry " + old.name() + " gets mirror " + m.Location + " for tags"
		}
	}
	return ""
}

func unsafeNewRegistry(r registry) string {
	if len(r.Mirrors) == 0 || r.Blocked {
		return "registry " + r.name() + " is new, and blocked or without mirrors"
	}
	for _, m := range r.Mirrors {
		if !r.byDigest(m) {
			return "registry " + r.name() + " is new with mirror " + m.Location + " for tags"
		}
	}
	return ""
}
