package machineconfig

import (
	"errors"
	"regexp"
	"strings"
)

// ArtifactScheme begins the address of a file in an OCI registry.
const ArtifactScheme = "oci://"

// artifactPrefix begins the same address in a config. Ignition does not know the scheme, so a config has an https
// address of a host that never exists. The daemon replaces it, and a machine that requests it gets nothing.
const artifactPrefix = "https://oci.bunsen.invalid/"

// Artifact is a file in an OCI registry: the only layer of a manifest.
type Artifact struct {
	// Registry is the host, perhaps with a port, and Repository the name in it.
	Registry, Repository string
	// Tag is for people, because Digest decides; it may be empty.
	Tag string
	// Digest is the digest of the manifest, sha256:HEX.
	Digest string
}

var (
	artifactName = regexp.MustCompile(
		`^([a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?|\[[0-9a-f:]+\](?::[0-9]{1,5})?)/([a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?$`)
	artifactDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// ErrNoDigest is returned for an address in a registry without a digest.
var ErrNoDigest = errors.New("its source names no digest, so the registry would decide what machines get: run " +
	"`bunsen hash FILE`, which writes `@sha256:…` and the hash here")

// ParseArtifact reads an address like oci://registry.example.com/name:tag@sha256:…, in which the tag may be missing.
// For an address without a digest, the error is ErrNoDigest, and the result has no digest.
func ParseArtifact(address string) (Artifact, error) {
	name, digest, hasDigest := strings.Cut(strings.TrimPrefix(address, ArtifactScheme), "@")
	m := artifactName.FindStringSubmatch(name)
	switch {
	case m == nil || !strings.HasPrefix(address, ArtifactScheme):
		return Artifact{}, errors.New("its source is not an address in an OCI registry: write " +
			"oci://REGISTRY/NAME:TAG, and run `bunsen hash FILE`, which adds the digest")
	case !hasDigest:
		return Artifact{Registry: m[1], Repository: m[2], Tag: m[3]}, ErrNoDigest
	case !artifactDigest.MatchString(digest):
		return Artifact{}, errors.New("the digest of its source is not sha256:HEX: run `bunsen hash FILE`, which " +
			"writes it")
	}
	return Artifact{m[1], m[2], m[3], digest}, nil
}

// ParseRepository reads the name of a repository like registry.example.com/name, without a scheme, a tag and a digest.
func ParseRepository(name string) (Artifact, error) {
	a, err := ParseArtifact(ArtifactScheme + name)
	if !errors.Is(err, ErrNoDigest) || a.Tag != "" {
		return Artifact{}, errors.New("it is a repository such as registry.example.com/bunsen/content, without a " +
			"scheme, a user and a tag")
	}
	return a, nil
}

// ArtifactOf returns the file in a registry that an address of a config names, and whether the address has the form of
// such a file. The error says what is wrong with it.
func ArtifactOf(source string) (Artifact, bool, error) {
	name, is := strings.CutPrefix(source, artifactPrefix)
	if !is {
		return Artifact{}, false, nil
	}
	a, err := ParseArtifact(ArtifactScheme + name)
	return a, true, err
}

// Source returns the address in a config.
func (a Artifact) Source() string {
	return artifactPrefix + strings.TrimPrefix(a.String(), ArtifactScheme)
}

// String returns the address as people write it.
func (a Artifact) String() string {
	text := ArtifactScheme + a.Registry + "/" + a.Repository
	if a.Tag != "" {
		text += ":" + a.Tag
	}
	if a.Digest != "" {
		text += "@" + a.Digest
	}
	return text
}

// ReplaceArtifacts gives addresses in registries the form that Ignition accepts, in the contents of the files of a
// decoded Ignition config. An address that is not valid gets this form too, so that the check of the config reports it.
// ReplaceArtifacts returns whether it changed anything.
func ReplaceArtifacts(config any) (changed bool) {
	top, _ := config.(map[string]any)
	storage, _ := top["storage"].(map[string]any)
	files, _ := storage["files"].([]any)
	for _, f := range files {
		file, _ := f.(map[string]any)
		contents, _ := file["contents"].(map[string]any)
		if source, _ := contents["source"].(string); strings.HasPrefix(source, ArtifactScheme) {
			contents["source"], changed = SourceOf(source), true
		}
	}
	return changed
}

// SourceOf returns the form of an address in a config: another one only for an address in a registry.
func SourceOf(address string) string {
	if name, is := strings.CutPrefix(address, ArtifactScheme); is {
		return artifactPrefix + name
	}
	return address
}
