package mcs

import (
	"net/url"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ContentAccess is how a new machine reads files of the content store and of OCI registries from the server.
type ContentAccess struct {
	// Server is its URL without a path, as the machine reaches it.
	Server string
	// CA is what the machine has to trust there, as PEM; nil if it does already.
	CA []byte
	// Expires is the end of the grants. Those of one server and one end are equal.
	Expires time.Time
	// Grant is for a file by its name: a hash, or the address in a registry.
	Grant func(name string) string
}

// StoredHashes returns the hashes of files in the content store; none for an invalid config, which no machine gets.
func StoredHashes(rendered *mcfgv1.MachineConfig) (hashes []string) {
	config, err := machineconfig.Parse(rendered.Spec)
	if err != nil {
		return nil
	}
	for _, f := range machineconfig.RemoteFiles(config) {
		if hash, stored := machineconfig.StoredHash(f.URL); stored {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}

// NeedsServer reports whether machines with a rendered config read files from the server. No machine gets an invalid
// config.
func NeedsServer(rendered *mcfgv1.MachineConfig) bool {
	config, err := machineconfig.Parse(rendered.Spec)
	return err == nil && len(servedFiles(config)) > 0
}

// servedFiles returns the server's names of the files that new machines read from it.
func servedFiles(c machineconfig.Config) (names []string) {
	for _, f := range machineconfig.RemoteFiles(c) {
		if name := servedName(f.URL); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func contentPath(name string) string {
	rest, isArtifact := strings.CutPrefix(name, machineconfig.ArtifactScheme)
	if !isArtifact {
		return v1alpha1.ContentPath + name
	}
	return (&url.URL{Path: v1alpha1.ContentPath + v1alpha1.ContentArtifact + rest}).EscapedPath()
}

// servedName returns the server's name of the file that a source names: the hash of one of the content store, or the
// address of one in a registry without its tag, oci://REGISTRY/NAME@sha256:HEX; empty if machines do not read it from
// the server.
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

// ContentName returns the name of the file at a path of the server, after v1alpha1.ContentPath; empty if there is none.
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
