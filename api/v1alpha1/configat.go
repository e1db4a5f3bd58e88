package v1alpha1

import "strings"

// revisionMark separates a rendered config and a revision of its secrets. No name of an object contains it.
const revisionMark = "@"

// ConfigAt names what a node runs or should run: a rendered config and the revision of its secrets, as CONFIG@REVISION.
// A config without secrets has no revision, and ConfigAt returns its name.
func ConfigAt(config, secrets string) string {
	if config == "" || secrets == "" {
		return config
	}
	return config + revisionMark + secrets
}

// SplitConfigAt returns the rendered config and the revision of its secrets that ConfigAt combined.
func SplitConfigAt(at string) (config, secrets string) {
	config, secrets, _ = strings.Cut(at, revisionMark)
	return config, secrets
}

// ConfigName returns the rendered config in a result of ConfigAt.
func ConfigName(at string) string {
	config, _ := SplitConfigAt(at)
	return config
}
