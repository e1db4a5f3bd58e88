package linux

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// RPMOSTree changes the OS through the machine's rpm-ostree, which stages a deployment for the next boot; the running one
// is never changed. Fetching an image is left to bootc on machines that are made for it, as long as nothing is layered.
//
// Going back to what runs takes the stage away. Otherwise it is a new deployment of the old image, never `rpm-ostree
// rollback`: that would bring back the old deployment's /etc, which has the files of the config that is taken back.
type RPMOSTree struct {
	rpm, bootc executable
	is         release
}

// Status implements host.OperatingSystem.
func (o *RPMOSTree) Status(ctx context.Context) (host.OSStatus, error) {
	d, err := o.look(ctx)
	if err != nil {
		return host.OSStatus{}, err
	}
	return host.OSStatus{Booted: d.booted.os(o.is), Next: d.next.os(o.is), Support: o.support()}, nil
}

func (o *RPMOSTree) support() host.Support {
	s := host.Support{Image: true, Kargs: true, KernelType: o.is.enterprise, Extensions: o.is.enterprise}
	if !o.is.enterprise {
		s.Why = "it is " + o.is.name + ", and kernel types and extensions are made for RHEL CoreOS and CentOS Stream CoreOS"
	}
	return s
}

// Stage implements host.OperatingSystem.
func (o *RPMOSTree) Stage(ctx context.Context, step host.Step) error {
	if err := o.refuse(step); err != nil {
		return err
	}
	d, err := o.idle(ctx)
	if err != nil {
		return err
	}
	is := d.next.os(o.is)
	want, err := staged(is, step)
	if err != nil || is == want {
		return err
	}
	if o.takesBack(d, want, step) {
		_, err = o.rpm.run(ctx, staging, "cleanup", "-p")
	} else {
		err = o.stage(ctx, d, step)
	}
	if err != nil {
		return err
	}
	return o.verify(ctx, want, step)
}

// refuse tells what this machine cannot do at all.
func (o *RPMOSTree) refuse(step host.Step) error {
	switch can := o.support(); {
	case step.Verb == host.SetKernelType && !can.KernelType, step.Verb == host.SetExtensions && !can.Extensions:
		return refused(step, can.Why)
	case step.Verb != host.SetKernelType:
		return nil
	case kernels[step.After.Word] == nil:
		return refused(step, fmt.Sprintf("%q is no kernel type: there are default, realtime and 64k-pages", step.After.Word))
	case step.After.Word == "64k-pages" && runtime.GOARCH != "arm64":
		return refused(step, "kernels with pages of 64k are made for aarch64, and this is "+runtime.GOARCH)
	}
	return nil
}

// staged is the OS with the step's part as the step wants it.
func staged(is host.OS, step host.Step) (host.OS, error) {
	switch step.Verb {
	case host.SetImage:
		is.Image = step.After.Word
	case host.SetKargs:
		is.Kargs = editKargs(is.Kargs, step.Before.Word, step.After.Word)
	case host.SetKernelType:
		is.KernelType = step.After.Word
	case host.SetExtensions:
		is.Extensions = step.After.Word
	default:
		return is, fmt.Errorf("%s is not a part of the OS", step.Verb)
	}
	return is, nil
}

// errBusy tells that somebody else's transaction does not end.
var errBusy = errors.New("rpm-ostree is busy with somebody else's transaction (see rpm-ostree status; rpm-ostree cancel ends it)")

// idle waits until nobody's transaction is under way, and looks: what it leaves behind may be staged. A transaction
// outlives whoever asked for it, so it may be our own of before a crash.
func (o *RPMOSTree) idle(ctx context.Context) (deployments, error) {
	for pause, n := firstPause, 1; ; pause, n = min(2*pause, longestPause), n+1 {
		d, err := o.look(ctx)
		if err != nil || !d.busy {
			return d, err
		}
		if n == tries {
			return d, errBusy
		}
		if err := o.rpm.wait(ctx, pause); err != nil {
			return d, errors.Join(err, errBusy)
		}
	}
}

// takesBack tells whether taking the stage away gives what is wanted, and takes nothing away that is nobody's business:
// packages of a person, another commit of an image whose tag has moved.
func (o *RPMOSTree) takesBack(d deployments, want host.OS, step host.Step) bool {
	return d.next.at != d.booted.at && want == d.booted.os(o.is) && d.next.theirs() == d.booted.theirs() &&
		(step.Verb == host.SetImage || d.next.base() == d.booted.base())
}

// stage makes the part of the next boot be as the step wants it.
func (o *RPMOSTree) stage(ctx context.Context, d deployments, step host.Step) error {
	switch step.Verb {
	case host.SetImage:
		return o.fetch(ctx, d, step.After.Word)
	case host.SetKargs:
		del, add := kargsChange(d.next.kargs, step.Before.Word, step.After.Word)
		args := []string{"kargs"}
		for _, a := range del {
			args = append(args, "--delete="+a)
		}
		for _, a := range add {
			args = append(args, "--append="+a)
		}
		return o.rpm.patiently(ctx, busy, args...)
	case host.SetKernelType:
		return o.swapKernel(ctx, d.next, step.After.Word)
	}
	install, uninstall, err := extensionChange(d.next.Packages, step.After.Word)
	if err != nil {
		return refused(step, err.Error())
	}
	return o.layer(ctx, install, uninstall)
}

// fetch stages an image, or the commit that a deployment had before there were images. A reference that is known keeps
// how it is verified.
func (o *RPMOSTree) fetch(ctx context.Context, d deployments, image string) error {
	if err := isImage(image); err != nil {
		return err
	}
	if ref, ok := strings.CutPrefix(image, ostreeImage); ok {
		ref, commit, _ := strings.Cut(ref, "@")
		return o.rpm.patiently(ctx, always, "rebase", ref, commit)
	}
	if transport, _ := transportOf(image); o.bootc.path != "" && !o.is.coreOS && !d.next.layered() && !d.booted.layered() && transport == "" {
		return o.bootc.patiently(ctx, always, "switch", "--transport", "registry", image)
	}
	reference := referenceTo(image)
	if known := slices.IndexFunc(d.all, func(e deployment) bool { return e.Reference != "" && e.image() == image }); known >= 0 {
		reference = d.all[known].Reference
	}
	return o.rpm.patiently(ctx, always, "rebase", "--experimental", reference)
}

// swapKernel takes the kernel of the image out and puts another in, or the other way round.
func (o *RPMOSTree) swapKernel(ctx context.Context, next deployment, want string) error {
	is := kernelTypeOf(next.Packages)
	added := slices.DeleteFunc(slices.Clone(next.Packages), func(p string) bool { return kernelTypeOf([]string{p}) == "default" })
	var args []string
	switch {
	case is == "default":
		args = append([]string{"override", "remove"}, kernelPackages("default", o.is.major)...)
		args = append(args, each("--install=", kernelPackages(want, o.is.major))...)
	case want == "default":
		removed := slices.DeleteFunc(slices.Clone(next.Removals), func(p string) bool { return !slices.Contains(kernels["default"], p) })
		args = append([]string{"override", "reset"}, removed...)
		args = append(args, each("--uninstall=", added)...)
	default:
		return o.layer(ctx, kernelPackages(want, o.is.major), added)
	}
	return o.rpm.patiently(ctx, busy, args...)
}

// layer adds and takes out packages in one go.
func (o *RPMOSTree) layer(ctx context.Context, install, uninstall []string) error {
	switch {
	case len(install) > 0:
		args := append([]string{"install"}, install...)
		return o.rpm.patiently(ctx, busy, append(args, each("--uninstall=", uninstall)...)...)
	case len(uninstall) > 0:
		return o.rpm.patiently(ctx, busy, append([]string{"uninstall"}, uninstall...)...)
	}
	return nil
}

// verify makes sure that the next boot has the step's part. A stage that was dropped without a word would be found only
// after the reboot.
func (o *RPMOSTree) verify(ctx context.Context, want host.OS, step host.Step) error {
	d, err := o.look(ctx)
	if err != nil {
		return err
	}
	is := d.next.os(o.is)
	for _, part := range []struct {
		verb     host.Verb
		is, want string
	}{
		{host.SetImage, is.Image, want.Image},
		{host.SetKargs, is.Kargs, want.Kargs},
		{host.SetKernelType, is.KernelType, want.KernelType},
		{host.SetExtensions, is.Extensions, want.Extensions},
	} {
		if part.verb == step.Verb && part.is != part.want {
			return fmt.Errorf("rpm-ostree reported no error, but the next boot has the %s %q, not %q", part.verb, part.is, part.want)
		}
	}
	return nil
}

func each(option string, words []string) (args []string) {
	for _, w := range words {
		args = append(args, option+w)
	}
	return args
}
