package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
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
