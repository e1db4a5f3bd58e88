package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// Booted exists on machines that run an OSTree deployment.
const Booted = "/run/ostree-booted"

// DetectOSTree returns the tool that changes a machine's OS: rpm-ostree if the machine has it, otherwise bootc,
// otherwise none. The parameter dir is the mount point of the machine's root.
func DetectOSTree(root *files.Root, dir string) host.OperatingSystem {
	is := releaseOf(machine.Release(root))
	if !machine.Exists(root, Booted) {
		return Packaged{Why: is.name + " runs from packages and not from an image (there is no " + Booted +
			"), so its image, kernel and kernel arguments stay as installed"}
	}
	boot := bootSpace{root: root, running: runningKernel}
	rpm, bootc := machine.FindProgram(root, dir, "rpm-ostree"), machine.FindProgram(root, dir, "bootc")
	switch {
	case rpm.Path != "":
		return &RPMOSTree{rpm: rpm, bootc: bootc, is: is, bootSpace: boot}
	case bootc.Path != "":
		return &Bootc{bootc: bootc, ostree: machine.FindProgram(root, dir, "ostree"), is: is, bootSpace: boot}
	}
	return Packaged{Why: is.name + " runs from an image, but has neither rpm-ostree nor bootc to change it with"}
}

// release describes the OS of a machine.
type release struct {
	// name is the name for users.
	name string
	// coreOS is true for Fedora CoreOS, RHEL CoreOS and CentOS Stream CoreOS.
	coreOS bool
	// enterprise is true for RHEL CoreOS and CentOS Stream CoreOS, which support kernel types and extensions.
	enterprise bool
	// major is the major version of the enterprise release, such as 9.
	major string
}

// releaseOf reads the fields of os-release(5). If there are no fields, the result has a default name.
func releaseOf(f map[string]string) release {
	core := f["VARIANT_ID"] == "coreos"
	r := release{
		name:       cmp.Or(f["PRETTY_NAME"], f["NAME"], f["ID"], "this machine"),
		coreOS:     core || f["ID"] == "rhcos" || f["ID"] == "scos",
		enterprise: f["ID"] == "rhcos" || f["ID"] == "scos" || core && (f["ID"] == "rhel" || f["ID"] == "centos"),
	}
	r.major, _, _ = strings.Cut(cmp.Or(f["RHEL_VERSION"], f["VERSION_ID"]), ".")
	return r
}

// runningKernel reads the checksum of the kernel that runs from its arguments: ostree=/ostree/boot.1/os/<checksum>/0.
func runningKernel() string {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return ""
	}
	for _, a := range host.SplitArgs(string(text)) {
		if at, ok := strings.CutPrefix(a, "ostree="); ok {
			return path.Base(path.Dir(at))
		}
	}
	return ""
}

// Packaged is an OS that the daemon does not change. Packaged only reports the running OS.
type Packaged struct {
	// Why is the reason, as the end of a sentence with "because".
	Why string
}

// Status implements host.OperatingSystem.
func (o Packaged) Status(context.Context) (host.OSStatus, error) {
	kargs, err := machine.RunningKargs()
	if err != nil {
		return host.OSStatus{}, err
	}
	runs := host.OS{Kargs: kargs, KernelType: "default"}
	return host.OSStatus{Booted: runs, Next: runs, Support: host.Support{Why: o.Why}}, nil
}

// Stage implements host.OperatingSystem.
func (o Packaged) Stage(_ context.Context, step host.Step) error { return refused(step, o.Why) }

// refused returns the error of a step that this machine does not support.
func refused(step host.Step, why string) error {
	return fmt.Errorf("%s: %w: %s", step.Verb, host.ErrUnsupported, why)
}

// transportOf splits the result of imageOf into the transport and the name; the transport "" is a registry.
func transportOf(image string) (transport, name string) {
	for _, t := range machineconfig.ImageTransports() {
		if name, ok := strings.CutPrefix(image, t+":"); ok {
			return t, name
		}
	}
	return "", image
}

// commitRef matches the Image of a deployment that was not created from a container.
var commitRef = regexp.MustCompile(`^ostree://[A-Za-z0-9_.][A-Za-z0-9_.:/+-]*@[0-9a-f]+$`)

// isImage refuses a text that a program would read as an option, or as two words.
func isImage(image string) error {
	_, name := transportOf(image)
	switch {
	case image == "":
		return errors.New("no image is named to go back to")
	case strings.HasPrefix(image, ostreeImage) && !commitRef.MatchString(image):
		return fmt.Errorf("%q is no commit of an OSTree ref: that is ostree://<ref>@<commit>, and an image is like "+
			"quay.io/org/image@sha256:…", image)
	case strings.HasPrefix(name, "-"), strings.ContainsFunc(image, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("%q is no reference of an image: it is like quay.io/org/image@sha256:…", image)
	}
	return nil
}
