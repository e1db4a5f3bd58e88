package mcs

import (
	"fmt"
	"strings"
)

// Version is a version of the Ignition spec that can be served, as it stands in ignition.version. The zero value is
// none; take one from Negotiate or Versions.
type Version string

// The versions, oldest first.
const (
	V2_2 Version = "2.2.0"
	V3_0 Version = "3.0.0"
	V3_1 Version = "3.1.0"
	V3_2 Version = "3.2.0"
	V3_3 Version = "3.3.0"
	V3_4 Version = "3.4.0"
	V3_5 Version = "3.5.0"
)

// Newest is the version of every rendered config. A client that names no version gets it, and so does one that names a
// later 3.x: Ignition reads all earlier versions of its major one.
const Newest = V3_5

// Versions lists what can be served, oldest first.
func Versions() []Version {
	all := make([]Version, len(dialects))
	for i, d := range dialects {
		all[i] = d.version
	}
	return all
}

// UnsupportedError says that a client asked for a version which is never served.
type UnsupportedError struct {
	// Asked is the version as the client wrote it.
	Asked string
}

// Error names the version and what can be asked for instead.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("Ignition version %q is not served: ask for one of %s", e.Asked, supported())
}

// UnsayableError says that a config uses fields which the version asked for does not have. Leaving them out would boot
// another machine than the one asked for.
type UnsayableError struct {
	// Config is the rendered config's name.
	Config string
	// Version is the version asked for.
	Version Version
	// Fields are the places that have no words in Version, such as storage.luks[root].cex.enabled; never empty.
	Fields []string
}

// Error names config, version and every field.
func (e *UnsayableError) Error() string {
	return fmt.Sprintf("config %s cannot be said in Ignition %s, which lacks: %s; "+
		"boot an image with a newer Ignition (asking for up to %s), or change these fields", e.Config, e.Version, strings.Join(e.Fields, ", "), Newest)
}

// BoundError says that a config has secrets which a machine needs for its first boot, so that they cannot be withheld: it
// is served whole or not at all.
type BoundError struct {
	// Config is the rendered config's name.
	Config string
	// Fields are the places of these secrets, such as storage.luks[root].keyFile; never empty.
	Fields []string
}

// Error names config and every field, and what to ask with.
func (e *BoundError) Error() string {
	return fmt.Sprintf("config %s has secrets that a machine needs for its first boot (%s): "+
		"ask with a token of the node: bunsen token create --node", e.Config, strings.Join(e.Fields, ", "))
}

func supported() string {
	var words []string
	for _, v := range Versions() {
		words = append(words, string(v))
	}
	return strings.Join(words, ", ")
}
