package image

import (
	"cmp"
	"context"
	"encoding/json"
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

// Bootc changes the image with the machine's bootc, on machines without rpm-ostree. On these machines, kernel
// arguments, kernel and packages are parts of the image.
type Bootc struct {
	bootc, ostree machine.Program
	is            release
	bootSpace
}

// bootEntry has the needed fields of one deployment in `bootc status --json --format-version=1`.
type bootEntry struct {
	Image *struct {
		Image struct {
			Image     string `json:"image"`
			Transport string `json:"transport"`
		} `json:"image"`
	} `json:"image"`
	OSTree deployed `json:"ostree"`
}

// deployed identifies a deployment of OSTree.
type deployed struct {
	Checksum string `json:"checksum"`
	Serial   int    `json:"deploySerial"`
}

// spec returns the pull spec, in the form of machineconfig.PulledImage. If the image does not come from a registry, the
// spec includes the transport.
func (e *bootEntry) spec() string {
	switch {
	case e == nil || e.Image == nil:
		return ""
	case e.Image.Image.Transport == "registry", e.Image.Image.Transport == "":
		return machineconfig.PulledImage(e.Image.Image.Image)
	}
	return machineconfig.PulledImage(e.Image.Image.Transport + ":" + e.Image.Image.Image)
}

// bootcStatus has the running deployment and the deployment of the next boot.
type bootcStatus struct {
	booted, next string
	// staged is true if a deployment is staged, which can be removed.
	staged bool
	// at is the deployment that is staged, if any.
	at deployed
}

func parseBootc(text []byte) (bootcStatus, error) {
	var s struct {
		Status struct {
			Staged         *bootEntry `json:"staged"`
			Booted         *bootEntry `json:"booted"`
			Rollback       *bootEntry `json:"rollback"`
			RollbackQueued bool       `json:"rollbackQueued"`
		} `json:"status"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return bootcStatus{}, fmt.Errorf("reading the status of bootc: %w", err)
	}
	if s.Status.Booted == nil {
		return bootcStatus{},
			errors.New("bootc does not know what runs: the machine was not booted from an image of it")
	}
	is := bootcStatus{booted: s.Status.Booted.spec()}
	is.next = is.booted
	switch {
	case s.Status.Staged != nil:
		is.next, is.staged, is.at = s.Status.Staged.spec(), true, s.Status.Staged.OSTree
	case s.Status.RollbackQueued:
		is.next = s.Status.Rollback.spec()
	}
	return is, nil
}

func (o *Bootc) status(ctx context.Context) (bootcStatus, error) {
	text, err := o.bootc.Run(ctx, machine.LookLimit, "status", "--json", "--format-version=1")
	if err != nil {
		return bootcStatus{}, err
	}
	return parseBootc(text)
}

// Status implements host.OperatingSystem.
func (o *Bootc) Status(ctx context.Context) (host.OSStatus, error) {
	is, err := o.status(ctx)
	if err != nil {
		return host.OSStatus{}, err
	}
	kargs, err := machine.RunningKargs()
	if err != nil {
		return host.OSStatus{}, err
	}
	runs := host.OS{Image: is.booted, Kargs: kargs, KernelType: "default"}
	next := runs
	next.Image = is.next
	return host.OSStatus{Booted: runs, Next: next, Support: host.Support{Image: true, Why: o.why()}}, nil
}

func (o *Bootc) why() string {
	return "it is " + o.is.name + " with bootc and without rpm-ostree, where kernel, packages and kernel arguments " +
		"are parts of the image (arguments in its /usr/lib/bootc/kargs.d)"
}

// Stage implements host.OperatingSystem.
func (o *Bootc) Stage(ctx context.Context, step host.Step) error {
	if step.Verb != host.SetImage {
		return refused(step, o.why())
	}
	is, err := o.status(ctx)
	want := step.After.Word
	switch {
	case err != nil:
		return err
	case is.next == want:
		return nil
	case isImage(want) != nil:
		return isImage(want)
	case is.staged && is.booted == want && o.ostree.Path != "":
		// The command undeploy removes the staged deployment. Switching to the old image instead would fetch it again,
		// and its tag may have moved.
		_, err = o.ostree.Run(ctx, machine.StageLimit, "admin", "undeploy", "0")
	default:
		transport, name := transportOf(want)
		if transport == "" {
			transport = "registry"
		}
		isMissing := func(error) bool {
			is, err := o.status(ctx)
			return err != nil || is.next != want
		}
		err = o.bootc.RunRetrying(ctx, isMissing, "switch", "--transport", transport, name)
	}
	if err != nil {
		// A program that was killed, or that failed at the end, may have staged the image.
		if is, lookErr := o.status(ctx); lookErr == nil && is.next == want {
			return o.nextFits(is)
		}
		return err
	}
	if is, err = o.status(ctx); err == nil && is.next != want {
		return fmt.Errorf("bootc reported no error, but the next boot has the image %q, not %q", is.next, want)
	}
	if err != nil {
		return err
	}
	return o.nextFits(is)
}

// nextFits returns an error if the kernel of a staged deployment does not fit into /boot.
func (o *Bootc) nextFits(is bootcStatus) error {
	if !is.staged {
		return nil
	}
	return o.fits(is.at.Checksum, is.at.Serial)
}

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
