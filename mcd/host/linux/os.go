package linux

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// ostreeBooted is there on machines that run from an OSTree deployment.
const ostreeBooted = "/run/ostree-booted"

// openOS finds out by what a machine's OS is changed: rpm-ostree where there is one, else bootc, else nothing. dir is
// where its root is mounted.
func openOS(root *Root, dir string) host.OperatingSystem {
	is := releaseOf(root)
	if !there(root, ostreeBooted) {
		return PlainOS{Why: is.name + " runs from packages and not from an image (there is no " + ostreeBooted + "), so its image, kernel and kernel arguments are left to whoever installed it"}
	}
	rpm, bootc := executableOf(root, dir, "rpm-ostree"), executableOf(root, dir, "bootc")
	switch {
	case rpm.path != "":
		return &RPMOSTree{rpm: rpm, bootc: bootc, is: is}
	case bootc.path != "":
		return &Bootc{bootc: bootc, ostree: executableOf(root, dir, "ostree"), is: is}
	}
	return PlainOS{Why: is.name + " runs from an image, but has neither rpm-ostree nor bootc to change it with"}
}

// release is what a machine says that it is.
type release struct {
	// name for people.
	name string
	// coreOS: Fedora CoreOS, RHEL CoreOS or CentOS Stream CoreOS.
	coreOS bool
	// enterprise: of those, the ones that kernel types and extensions are made for.
	enterprise bool
	// major is the number of the enterprise release that it is made of, such as 9.
	major string
}

// releaseOf reads os-release. A machine without one has a name all the same.
func releaseOf(root *Root) release {
	for _, at := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if is, err := root.Stat(at); err == nil && is.Kind == host.Link {
			to := is.Target
			if !path.IsAbs(to) {
				to = path.Join(path.Dir(at), to)
			}
			at = path.Clean(to)
		}
		if text, err := root.Read(at); err == nil {
			return parseRelease(string(text))
		}
	}
	return release{name: "this machine"}
}

// parseRelease reads os-release(5).
func parseRelease(text string) release {
	f := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		f[key] = strings.Trim(value, `"'`)
	}
	core := f["VARIANT_ID"] == "coreos"
	r := release{
		name:       cmp.Or(f["PRETTY_NAME"], f["NAME"], f["ID"], "this machine"),
		coreOS:     core || f["ID"] == "rhcos" || f["ID"] == "scos",
		enterprise: f["ID"] == "rhcos" || f["ID"] == "scos" || core && (f["ID"] == "rhel" || f["ID"] == "centos"),
	}
	r.major, _, _ = strings.Cut(cmp.Or(f["RHEL_VERSION"], f["VERSION_ID"]), ".")
	return r
}

// imageOf is the pull spec in a reference of an OSTree container: ostree-unverified-registry:<spec> and its longer forms.
// Images that come from elsewhere than a registry keep their transport before a colon.
func imageOf(reference string) string {
	kind, rest, ok := strings.Cut(reference, ":")
	if !ok {
		return reference
	}
	switch kind {
	case "ostree-unverified-registry":
		return rest
	case "ostree-remote-registry":
		_, spec, _ := strings.Cut(rest, ":")
		return spec
	case "ostree-remote-image":
		_, rest, _ = strings.Cut(rest, ":")
	case "ostree-unverified-image", "ostree-image-signed":
	default:
		return reference
	}
	for _, registry := range []string{"docker://", "registry:"} {
		if spec, ok := strings.CutPrefix(rest, registry); ok {
			return spec
		}
	}
	return rest
}

// transports are where images come from beside registries.
var transports = []string{"containers-storage", "oci", "oci-archive", "docker-archive", "docker-daemon", "dir"}

// transportOf parts what imageOf gives: an image and the transport that it keeps; "" is a registry.
func transportOf(image string) (transport, name string) {
	for _, t := range transports {
		if name, ok := strings.CutPrefix(image, t+":"); ok {
			return t, name
		}
	}
	return "", image
}

// commitRef is the Image of a deployment that was made of no container.
var commitRef = regexp.MustCompile(`^ostree://[A-Za-z0-9_.][A-Za-z0-9_.:/+-]*@[0-9a-f]+$`)

// isImage refuses what a program would take for an option, or for two words.
func isImage(image string) error {
	_, name := transportOf(image)
	switch {
	case image == "":
		return errors.New("no image is named to go back to")
	case strings.HasPrefix(image, ostreeImage) && !commitRef.MatchString(image):
		return fmt.Errorf("%q is no commit of an OSTree ref: that is ostree://<ref>@<commit>, and an image is like quay.io/org/image@sha256:…", image)
	case strings.HasPrefix(name, "-"), strings.ContainsFunc(image, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("%q is no reference of an image: it is like quay.io/org/image@sha256:…", image)
	}
	return nil
}

// referenceTo is the reference with which an image is fetched.
func referenceTo(image string) string {
	if transport, _ := transportOf(image); transport != "" {
		return "ostree-unverified-image:" + image
	}
	return "ostree-unverified-registry:" + image
}
