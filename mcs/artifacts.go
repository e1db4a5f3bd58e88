package mcs

import (
	"net/url"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The server's name of a file is the hash of a file of the content store, or the address of a file in a registry
// without its tag: oci://REGISTRY/NAME@sha256:HEX.

// servedName returns the server's name of the file that a source names; empty if machines do not read it from the
// server.
func servedName(source string) string {
	if hash, stored := machineconfig.StoredHash(source); stored {
		return hash
	}
	a, is, err := machineconfig.ArtifactOf(source)
	if !is || err != nil {
		return ""
	}
	a.Tag = ""
	return a.String()
}

// ParseArtifactName returns the file in a registry that has a name. The result ok is false for any other text.
func ParseArtifactName(name string) (a machineconfig.Artifact, ok bool) {
	a, err := machineconfig.ParseArtifact(name)
	if err != nil || a.Tag != "" || a.String() != name {
		return machineconfig.Artifact{}, false
	}
	return a, true
}

// contentPath returns the path of a file at the server.
func contentPath(name string) string {
	rest, isArtifact := strings.CutPrefix(name, machineconfig.ArtifactScheme)
	if !isArtifact {
		return v1alpha1.ContentPath + name
	}
	return (&url.URL{Path: v1alpha1.ContentPath + v1alpha1.ContentArtifact + rest}).EscapedPath()
}

// ContentName returns the name of the file at a path of the server, after v1alpha1.ContentPath; empty if the path names
// no file.
func ContentName(path string) string {
	if machineconfig.IsStoredHash(path) {
		return path
	}
	if rest, is := strings.CutPrefix(path, v1alpha1.ContentArtifact); is {
		if name := machineconfig.ArtifactScheme + rest; isArtifactName(name) {
			return name
		}
	}
	return ""
}

func isArtifactName(name string) bool {
	_, ok := ParseArtifactName(name)
	return ok
}
