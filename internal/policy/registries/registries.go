package registries

import (
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// config is the part of registries.conf (version 2) that decides where images come from.
type config struct {
	Search     []string   `toml:"unqualified-search-registries"`
	Registries []registry `toml:"registry"`
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

// name identifies the registry.
func (r registry) name() string {
	if r.Prefix != "" {
		return r.Prefix
	}
	return r.Location
}

// byDigest reports whether the mirror serves only images that are named by digest, which are the same in every registry.
func (r registry) byDigest(m mirror) bool {
	return m.Pull == "digest-only" || m.Pull == "" && r.MirrorByDigestOnly
}

// UnsafeChange returns why a change of registries.conf could give a running pod another image, or no image; "" if it
// cannot. A change may append search registries and add mirrors for digests. Any other change is unsafe. A file may be
// nil.
func UnsafeChange(from, to *ign.File) string {
	if to == nil {
		return "the file is removed"
	}
	var a, b config
	if from != nil {
		if err := a.read(from.Contents); err != nil {
			return fmt.Sprintf("the old file cannot be read: %v", err)
		}
	}
	if err := b.read(to.Contents); err != nil {
		return fmt.Sprintf("the new file cannot be read: %v", err)
	}
	if len(b.Search) < len(a.Search) || !slices.Equal(a.Search, b.Search[:len(a.Search)]) {
		return "unqualified-search-registries changes other than by appending"
	}
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

func (c *config) read(contents ign.Resource) error {
	data, err := machineconfig.Contents(contents)
	if err != nil {
		return err
	}
	_, err = toml.Decode(string(data), c)
	return err
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
