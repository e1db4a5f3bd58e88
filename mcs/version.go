package mcs

import (
	"fmt"
	"strings"
)

// Version is a version of the Ignition spec that the server supports, as in ignition.version. The zero value is
// invalid. Negotiate and Versions return valid versions.
type Version string

// The supported versions of the Ignition spec, oldest first.
const (
	V2_2 Version = "2.2.0"
	V3_0 Version = "3.0.0"
	V3_1 Version = "3.1.0"
	V3_2 Version = "3.2.0"
	V3_3 Version = "3.3.0"
	V3_4 Version = "3.4.0"
	V3_5 Version = "3.5.0"
)

// Newest is the version of every rendered config. The server uses Newest for clients that name no version, or a later
// version 3.x, because Ignition reads all earlier versions of its major version.
const Newest = V3_5

// Versions lists the supported versions, oldest first.
func Versions() []Version {
	all := make([]Version, len(specs))
	for i, d := range specs {
		all[i] = d.version
	}
	return all
}

// UnsupportedVersionError says that a client requested a version that the server does not support.
type UnsupportedVersionError struct {
	// Asked is the version as the client wrote it.
	Asked string
}

// Error names the unsupported version and the supported versions.
func (e *UnsupportedVersionError) Error() string {
	return fmt.Sprintf("Ignition version %q is not served: ask for one of %s", e.Asked, supported())
}

// UnsupportedFieldsError says that a config uses fields that the requested version does not have. A machine that boots
// a config without these fields would differ from the config.
type UnsupportedFieldsError struct {
	// Config is the rendered config's name.
	Config string
	// Version is the version that the client requested.
	Version Version
	// Fields are the fields that Version does not have, such as storage.luks[root].cex.enabled; never empty.
	Fields []string
}

// Error names config, version and every field.
func (e *UnsupportedFieldsError) Error() string {
	return fmt.Sprintf("Ignition %s does not support these fields of config %s: %s; "+
		"boot an image with a newer Ignition (up to %s), or change the fields", e.Version, e.Config,
		strings.Join(e.Fields, ", "), Newest)
}

// FirstBootSecretsError says that a config has secrets that a machine needs for its first boot, so the server cannot
// withhold them: it serves the whole config or none.
type FirstBootSecretsError struct {
	// Config is the rendered config's name.
	Config string
	// Fields are the paths of the secrets in the config, such as storage.luks[root].keyFile; never empty.
	Fields []string
}

// Error names the config and every field, and what to do.
func (e *FirstBootSecretsError) Error() string {
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
