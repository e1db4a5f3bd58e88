package v1alpha1

import "strings"

// revisionMark separates a rendered config and a revision of its secrets. No name of an object contains it.
const revisionMark = "@"

// ConfigVersion is what a node runs or should run: a rendered config and the revision of its secrets. With another
// revision it is another version. The zero value is none.
//
// +kubebuilder:object:generate=false
type ConfigVersion struct {
	// the name of the rendered config
	Config string
	// the revision; empty if the config refers to no secrets
	Secrets string
}

// NewConfigVersion returns a config with a revision of its secrets; the zero value if there is no config.
func NewConfigVersion(config, secrets string) ConfigVersion {
	if config == "" {
		return ConfigVersion{}
	}
	return ConfigVersion{Config: config, Secrets: secrets}
}

// ParseConfigVersion reads the form of String.
func ParseConfigVersion(text string) ConfigVersion {
	config, secrets, _ := strings.Cut(text, revisionMark)
	return NewConfigVersion(config, secrets)
}

// String returns CONFIG@REVISION, or CONFIG without a revision.
func (v ConfigVersion) String() string {
	if v.Secrets == "" {
		return v.Config
	}
	return v.Config + revisionMark + v.Secrets
}

// IsZero reports whether there is no config.
func (v ConfigVersion) IsZero() bool { return v == ConfigVersion{} }

// MarshalText returns String: JSON has one text.
func (v ConfigVersion) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (v *ConfigVersion) UnmarshalText(text []byte) error {
	*v = ParseConfigVersion(string(text))
	return nil
}

// unreadable stands for a name or a revision that no daemon writes. No config has this name.
const unreadable = "UNREADABLE"

// ReportedConfig returns the config in force according to the annotations of a Node. A node can write any text, so
// ReportedConfig replaces what is neither a name nor a revision.
func ReportedConfig(annotations map[string]string) ConfigVersion {
	return readable(annotations[CurrentConfigAnnotation], annotations[CurrentSecretsAnnotation])
}

// AssignedConfig returns the desired config of a Node. Until the controller has written it, it is the daemon's, and
// read as in ReportedConfig.
func AssignedConfig(annotations map[string]string) ConfigVersion {
	return readable(annotations[DesiredConfigAnnotation], annotations[DesiredSecretsAnnotation])
}

func readable(config, secrets string) ConfigVersion {
	if !isObjectName(config) {
		config = unreadable
	}
	if !isRevision(secrets) {
		secrets = unreadable
	}
	return NewConfigVersion(config, secrets)
}

// isObjectName reports whether a text has objectNameForm. Regular expressions would take most of the time in which a
// Node is read, and the controller reads each after each of its changes.
func isObjectName(s string) bool {
	inside := func(r rune) bool { return r == '.' || r == '-' }
	for _, r := range s {
		if !isDigit(r) && (r < 'a' || r > 'z') && !inside(r) {
			return false
		}
	}
	return s == "" || !inside(rune(s[0])) && !inside(rune(s[len(s)-1]))
}

// isRevision reports whether a text has revisionForm.
func isRevision(s string) bool {
	for _, r := range s {
		if !isDigit(r) && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }
