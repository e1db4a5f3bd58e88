package download

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// RegistriesConf is the main file. Those in registries.conf.d beside it are read after it, in lexical order.
const RegistriesConf = "/etc/containers/registries.conf"

// MirrorDropIns returns the directory of the files that are read after a main file.
func MirrorDropIns(conf string) string { return conf + ".d" }

// MirrorFile is a file in the format of registries.conf.
type MirrorFile struct {
	// Name is for errors.
	Name string
	Text []byte
}

// Mirrors are the mirrors of registries. The zero value has none.
type Mirrors struct {
	registries []registry
	// why files could not be read; nil if all were
	invalid error
}

// registry: the setting insecure has no effect: files come over TLS only.
type registry struct {
	Prefix   string   `toml:"prefix"`
	Location string   `toml:"location"`
	Blocked  bool     `toml:"blocked"`
	Mirrors  []mirror `toml:"mirror"`
	// MirrorByDigestOnly is the earlier form of pull-from-mirror of all mirrors.
	MirrorByDigestOnly bool `toml:"mirror-by-digest-only"`
}

type mirror struct {
	Location string `toml:"location"`
	Pull     string `toml:"pull-from-mirror"`
}

// ParseMirrors reads files in the order of container tools. A later one replaces the tables of an earlier one with the
// same prefix. A file that is not valid has no mirrors, and its error is part of Mirrors.Err.
func ParseMirrors(files ...MirrorFile) Mirrors {
	var m Mirrors
	for _, f := range files {
		if err := m.add(f.Text); err != nil {
			m.invalid = errors.Join(m.invalid, fmt.Errorf("reading %s: %w", f.Name, err))
		}
	}
	return m
}

// LoadMirrors reads a main file and those of its directory. For what does not exist, read returns fs.ErrNotExist, and
// list nothing.
func LoadMirrors(conf string, read func(name string) ([]byte, error), list func(dir string) ([]string, error)) Mirrors {
	var bad error
	var files []MirrorFile
	add := func(name string) {
		text, err := read(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			bad = errors.Join(bad, fmt.Errorf("reading %s: %w", name, err))
		} else if err == nil {
			files = append(files, MirrorFile{name, text})
		}
	}
	add(conf)
	names, err := list(MirrorDropIns(conf))
	if err != nil {
		bad = errors.Join(bad, fmt.Errorf("reading %s: %w", MirrorDropIns(conf), err))
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if strings.HasSuffix(name, ".conf") {
			add(MirrorDropIns(conf) + "/" + name)
		}
	}
	m := ParseMirrors(files...)
	m.invalid = errors.Join(bad, m.invalid)
	return m
}

// Err returns why files could not be read; nil if all were.
func (m Mirrors) Err() error { return m.invalid }

func (m *Mirrors) add(text []byte) error {
	var is struct {
		Registries []registry `toml:"registry"`
	}
	if _, err := toml.Decode(string(text), &is); err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			return fmt.Errorf("it is not valid TOML with tables [[registry]]: see line %d", at.Position.Line)
		}
		return errors.New("it is not valid TOML with tables [[registry]]")
	}
	for i := range is.Registries {
		if err := is.Registries[i].complete(); err != nil {
			return err
		}
	}
	for _, r := range is.Registries {
		m.registries = slices.DeleteFunc(m.registries, func(old registry) bool { return old.Prefix == r.Prefix })
	}
	m.registries = append(m.registries, is.Registries...)
	return nil
}

// place: a host with an optional port, and the beginning of a repository
var place = regexp.MustCompile(
	`^([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?(/[a-z0-9]+([._/-]+[a-z0-9]+)*)?$`)

// wildcard: the prefix of all hosts below a domain
var wildcard = regexp.MustCompile(`^\*(\.[A-Za-z0-9][A-Za-z0-9-]*)+$`)

// complete checks a table and fills in the prefix.
func (r *registry) complete() error {
	if r.Prefix == "" {
		r.Prefix = r.Location
	}
	isWildcard := wildcard.MatchString(r.Prefix)
	if !isWildcard && !place.MatchString(r.Prefix) {
		return fmt.Errorf("the prefix %q is not a registry, such as registry.example.com/team or *.example.com",
			r.Prefix)
	}
	if r.Location == "" && !isWildcard {
		r.Location = r.Prefix
	}
	if r.Location != "" && !place.MatchString(r.Location) {
		return fmt.Errorf("the location %q of %s is not a registry", r.Location, r.Prefix)
	}
	for i := range r.Mirrors {
		mirror := &r.Mirrors[i]
		if !place.MatchString(mirror.Location) {
			return fmt.Errorf("the mirror %q of %s is not a registry", mirror.Location, r.Prefix)
		}
		switch mirror.Pull {
		case "", "all", "digest-only", "tag-only":
		default:
			return fmt.Errorf("pull-from-mirror of %s is all, digest-only or tag-only, not %q", mirror.Location,
				mirror.Pull)
		}
		if mirror.Pull == "" && r.MirrorByDigestOnly {
			mirror.Pull = "digest-only"
		}
	}
	return nil
}

// matches returns the length of a prefix that matches a name up to the end of a part; 0 if it does not.
func (r registry) matches(name string) int {
	length := len(r.Prefix)
	if rest, isWildcard := strings.CutPrefix(r.Prefix, "*"); isWildcard {
		host, _, _ := strings.Cut(name, "/")
		host, _, _ = strings.Cut(host, ":")
		if !strings.HasSuffix(host, rest) || len(host) == len(rest) {
			return 0
		}
		length = len(host)
	} else if !strings.HasPrefix(name, r.Prefix) {
		return 0
	}
	if length < len(name) && name[length] != '/' && name[length] != ':' {
		return 0
	}
	return length
}

// of returns the table with the longest prefix.
func (m Mirrors) of(name string) (found *registry, length int) {
	for i := range m.registries {
		r := &m.registries[i]
		if n := r.matches(name); n > 0 && (found == nil || len(r.Prefix) > len(found.Prefix)) {
			found, length = r, n
		}
	}
	return found, length
}

// Of returns the places of an artifact in the order in which a reader tries them: mirrors, and then the registry
// itself, without those that are blocked. An artifact without a digest has no mirrors for digests only.
func (m Mirrors) Of(a machineconfig.Artifact) (places []machineconfig.Artifact, blocked []string) {
	name := a.Registry + "/" + a.Repository
	add := func(location string) {
		if r, _ := m.of(location); r != nil && r.Blocked {
			blocked = append(blocked, location)
			return
		}
		to := a
		var ok bool
		if to.Registry, to.Repository, ok = strings.Cut(location, "/"); ok && !slices.Contains(places, to) {
			places = append(places, to)
		}
	}
	r, length := m.of(name)
	if r == nil {
		return []machineconfig.Artifact{a}, nil
	}
	for _, mirror := range r.Mirrors {
		if mirror.Pull == "tag-only" && a.Digest != "" || mirror.Pull == "digest-only" && a.Digest == "" {
			continue
		}
		add(mirror.Location + name[length:])
	}
	if r.Blocked {
		return places, append(blocked, name)
	}
	if r.Location == "" { // a wildcard names hosts, and each of them is its own location
		add(name)
	} else {
		add(r.Location + name[length:])
	}
	return places, blocked
}
