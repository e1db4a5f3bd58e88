package v1alpha1

import (
	"regexp"
	"strings"
)

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

var (
	reportedName     = regexp.MustCompile(objectNameForm)
	reportedRevision = regexp.MustCompile(revisionForm)
)

// unreadable stands for a name or a revision that no daemon writes. No config has this name.
const unreadable = "UNREADABLE"

// ReportedConfig returns the config in force according to the annotations of a Node, as ConfigAt does. A node can write
// any text, so ReportedConfig replaces what is neither a name nor a revision.
func ReportedConfig(annotations map[string]string) string {
	config, secrets := annotations[CurrentConfigAnnotation], annotations[CurrentSecretsAnnotation]
	if !reportedName.MatchString(config) {
		config = unreadable
	}
	if !reportedRevision.MatchString(secrets) {
		secrets = unreadable
	}
	return ConfigAt(config, secrets)
}

// AssignedConfig returns the desired config of a Node, as ConfigAt does. Until the controller has written it, it is the
// daemon's, and read as in ReportedConfig.
func AssignedConfig(annotations map[string]string) string {
	return ReportedConfig(map[string]string{
		CurrentConfigAnnotation:  annotations[DesiredConfigAnnotation],
		CurrentSecretsAnnotation: annotations[DesiredSecretsAnnotation],
	})
}
