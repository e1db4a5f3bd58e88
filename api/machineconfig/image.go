package machineconfig

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Image is an OS image, as osImageURL and baseOSExtensionsContainerImage name it.
type Image struct {
	// Transport is where a node finds the image: containers-storage or docker-daemon; empty for a registry.
	Transport string
	// Name is the name as written, perhaps with a registry.
	Name string
	// Tag and Digest are empty if there is none. Digest is sha256:HEX.
	Tag, Digest string
}

// storages are the transports of images that the node has. Their names have the grammar of a registry's names.
var storages = []string{"containers-storage", "docker-daemon"}

// imageFiles are the transports of images in files of the node.
var imageFiles = []string{"oci", "oci-archive", "docker-archive", "dir"}

// ImageTransports are the sources of images other than registries.
func ImageTransports() []string { return append(append([]string{}, storages...), imageFiles...) }

var (
	// imageName has the grammar of the references that container tools read: an optional host, a path, an optional tag.
	imageName = regexp.MustCompile(
		`^((?:(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?/)?` +
			`[a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?$`)
	// ostreeCommit matches a commit of an OSTree ref, which decides the content as a digest does.
	ostreeCommit = regexp.MustCompile(`^ostree://[A-Za-z0-9_.][A-Za-z0-9_.:/+-]*@[0-9a-f]{64}$`)
)

// ErrNoImageDigest is returned for an image without a digest.
var ErrNoImageDigest = errors.New("it names no digest")

// ParseImage reads the reference of an image. Without a digest, the error is ErrNoImageDigest, and the result is
// complete but for the digest.
func ParseImage(reference string) (Image, error) {
	var i Image
	name := reference
	for _, transport := range storages {
		if rest, is := strings.CutPrefix(reference, transport+":"); is {
			i.Transport, name = transport, rest
		}
	}
	name, digest, hasDigest := strings.Cut(name, "@")
	m := imageName.FindStringSubmatch(name)
	if m == nil {
		return Image{}, fmt.Errorf("%q is not a reference of an image: write one like "+
			"quay.io/org/image:tag@sha256:…, without a scheme", reference)
	}
	i.Name, i.Tag = m[1], m[2]
	switch {
	case !hasDigest:
		return i, ErrNoImageDigest
	case !artifactDigest.MatchString(digest):
		return i, fmt.Errorf("the digest of %q is not sha256 and 64 hexadecimal digits: remove it, and run "+
			"`bunsen hash`, which writes the right one", reference)
	}
	i.Digest = digest
	return i, nil
}

// String returns the reference as people write it.
func (i Image) String() string {
	text := i.Name
	if i.Transport != "" {
		text = i.Transport + ":" + text
	}
	if i.Tag != "" {
		text += ":" + i.Tag
	}
	if i.Digest != "" {
		text += "@" + i.Digest
	}
	return text
}

// Artifact returns the image as a registry knows it. A name without a registry is one of docker.io, as for other
// container tools.
func (i Image) Artifact() Artifact {
	host, path, _ := strings.Cut(i.Name, "/")
	if path == "" || host != "localhost" && !strings.ContainsAny(host, ".:") && host == strings.ToLower(host) {
		host, path = "docker.io", i.Name
	}
	if host == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return Artifact{Registry: strings.ToLower(host), Repository: path, Tag: i.Tag, Digest: i.Digest}
}

// CheckImage returns why a reference in a document does not decide which image a node gets; nil if it does, or if it is
// empty. A tag names another image tomorrow, so that two nodes with the same config could run different systems, and a
// revert would change nothing.
func CheckImage(reference string) error { return checkImage(reference, "bunsen hash FILE") }

// CheckImageFlag is CheckImage for the value of a flag.
func CheckImageFlag(reference string) error {
	return checkImage(reference, "bunsen hash --image IMAGE")
}

// checkImage is CheckImage with the command that adds the digest.
func checkImage(reference, command string) error {
	if reference == "" || ostreeCommit.MatchString(reference) {
		return nil
	}
	for _, transport := range imageFiles {
		if strings.HasPrefix(reference, transport+":") {
			return fmt.Errorf("%q is in a file of the node, and a reference cannot say what the file contains: push "+
				"the image to a registry, write its name there, and run `%s`, which adds the digest", reference,
				command)
		}
	}
	i, err := ParseImage(reference)
	if errors.Is(err, ErrNoImageDigest) {
		return fmt.Errorf("%q names no digest, so nodes with the same config could run different images: write "+
			"%s@sha256:…, as `%s` does", reference, i, command)
	}
	return err
}

// CheckImages returns why the images of a config do not decide what nodes run, each with its field. Check does not
// include it, because a MachineConfig that a user created through the API keeps its image.
func CheckImages(c Config) Problems {
	k := &checker{}
	for _, image := range []struct{ field, reference string }{
		{"osImageURL", c.OSImageURL}, {"baseOSExtensionsContainerImage", c.ExtensionsImage},
	} {
		if err := CheckImage(image.reference); err != nil {
			k.addError(ofSpec(image.field), "%w", err)
		}
	}
	return k.bad
}

// PulledImage returns the reference by which a node pulls an image: with a digest, there is no tag. The tag is for
// readers, and skopeo, which pulls for rpm-ostree and bootc, refuses a reference with both.
func PulledImage(reference string) string {
	i, err := ParseImage(reference)
	if err != nil {
		return reference
	}
	i.Tag = ""
	return i.String()
}

// OSImage returns the reference by which nodes pull the OS image; empty if the config names none.
func (c Config) OSImage() string { return PulledImage(c.OSImageURL) }
