package image

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// RPMOSTree changes the OS with the machine's rpm-ostree. RPMOSTree stages a deployment for the next boot and never
// changes the running deployment. On machines with bootc, RPMOSTree fetches images with bootc, unless packages are
// layered.
//
// To return to the running OS, RPMOSTree removes the staged deployment. To return to another OS, RPMOSTree deploys the
// old image anew. RPMOSTree never uses `rpm-ostree rollback`, which would restore the /etc of the old deployment with
// the files of the config that is rolled back.
type RPMOSTree struct {
	rpm, bootc machine.Program
	is         release
	bootSpace
}

// Status implements host.OperatingSystem.
func (o *RPMOSTree) Status(ctx context.Context) (host.OSStatus, error) {
	d, err := o.deployments(ctx)
	if err != nil {
		return host.OSStatus{}, err
	}
	return host.OSStatus{Booted: d.booted.os(o.is), Next: d.next.os(o.is), Support: o.support()}, nil
}

func (o *RPMOSTree) support() host.Support {
	s := host.Support{Image: true, Kargs: true, KernelType: o.is.enterprise, Extensions: o.is.enterprise}
	if !o.is.enterprise {
		s.Why = "it is " + o.is.name + ", and kernel types and extensions exist only for RHEL CoreOS and CentOS " +
			"Stream CoreOS"
	}
	return s
}

// Stage implements host.OperatingSystem.
func (o *RPMOSTree) Stage(ctx context.Context, step host.Step) error {
	if err := o.refuse(step); err != nil {
		return err
	}
	d, err := o.waitIdle(ctx)
	if err != nil {
		return err
	}
	is := d.next.os(o.is)
	want, err := staged(is, step)
	if err != nil || is == want {
		return err
	}
	if o.canUnstage(d, want, step) {
		_, err = o.rpm.Run(ctx, machine.StageLimit, "cleanup", "-p")
	} else {
		err = o.stage(ctx, d, step)
	}
	if err != nil {
		return o.afterFailure(ctx, want, step, err)
	}
	return o.verify(ctx, want, step)
}

// afterFailure returns nil if the next boot has the result of a step although the program failed. A transaction goes on
// without its client, so a program that was killed, or that lost its connection to rpm-ostreed, may have staged the
// step.
func (o *RPMOSTree) afterFailure(ctx context.Context, want host.OS, step host.Step, err error) error {
	if ctx.Err() != nil {
		return err
	}
	d, lookErr := o.waitIdle(ctx)
	switch {
	case lookErr != nil:
		return errors.Join(err, fmt.Errorf("looking whether it was staged: %w", lookErr))
	case differs(d.next.os(o.is), want, step) == nil:
		return o.nextFits(d)
	}
	return err
}

// nextFits returns an error if the kernel of a staged deployment does not fit into /boot.
func (o *RPMOSTree) nextFits(d deployments) error {
	if d.next.at == d.booted.at {
		return nil
	}
	return o.fits(d.next.Checksum, d.next.Serial)
}

// refuse returns an error for a step that this machine does not support.
func (o *RPMOSTree) refuse(step host.Step) error {
	switch can := o.support(); {
	case step.Verb == host.SetKernelType && !can.KernelType, step.Verb == host.SetExtensions && !can.Extensions:
		return refused(step, can.Why)
	case step.Verb != host.SetKernelType:
		return nil
	case kernels[step.After.Word] == nil:
		return refused(step, fmt.Sprintf("%q is no kernel type: there are default, realtime and 64k-pages",
			step.After.Word))
	case step.After.Word == "64k-pages" && runtime.GOARCH != "arm64":
		return refused(step, "kernels with pages of 64k exist only for aarch64, and this is "+runtime.GOARCH)
	}
	return nil
}

// staged returns the OS after a step.
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

// editKargs returns the list of arguments after the smallest edit.
func editKargs(all, before, after string) string {
	del, add := kargsChange(all, before, after)
	list := host.SplitArgs(all)
	for _, word := range del {
		at := slices.Index(list, word)
		list = slices.Delete(list, at, at+1)
	}
	return host.JoinArgs(append(list, add...))
}

// errBusy means that the transaction of another program does not end.
var errBusy = errors.New("rpm-ostree is busy with another transaction (see rpm-ostree status; rpm-ostree cancel " +
	"ends it)")

// waitIdle waits until no transaction is under way, and then reads the deployments, because a transaction may stage
// one. A transaction continues after the death of its client, so the daemon itself may have started it before a crash.
func (o *RPMOSTree) waitIdle(ctx context.Context) (deployments, error) {
	for pause, n := machine.FirstPause, 1; ; pause, n = min(2*pause, machine.MaxPause), n+1 {
		d, err := o.deployments(ctx)
		if err != nil || !d.busy {
			return d, err
		}
		if n == machine.MaxTries {
			return d, errBusy
		}
		if err := o.rpm.Wait(ctx, pause); err != nil {
			return d, errors.Join(err, errBusy)
		}
	}
}

// canUnstage reports whether removing the staged deployment results in the wanted OS. The removal must not discard
// changes of a user: packages, or another commit of an image whose tag has moved.
func (o *RPMOSTree) canUnstage(d deployments, want host.OS, step host.Step) bool {
	return d.next.at != d.booted.at && want == d.booted.os(o.is) &&
		d.next.foreignPackages() == d.booted.foreignPackages() &&
		(step.Verb == host.SetImage || d.next.base() == d.booted.base())
}

// stage applies a step to the next boot.
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
		return o.rpm.RunRetrying(ctx, isBusy, args...)
	case host.SetKernelType:
		return o.swapKernel(ctx, d.next, step.After.Word)
	}
	install, uninstall, err := extensionChange(d.next.Packages, step.After.Word)
	if err != nil {
		return refused(step, err.Error())
	}
	return o.layer(ctx, install, uninstall)
}

// extensionChange returns the packages to install and to uninstall, so that exactly the wanted extensions are
// requested. Packages that belong to no extension stay.
func extensionChange(packages []string, wanted string) (install, uninstall []string, err error) {
	need := map[string]bool{}
	for _, name := range host.SplitArgs(wanted) {
		parts, known := extensions[name]
		if !known {
			return nil, nil, fmt.Errorf("%q is no extension: there are %s", name,
				strings.Join(slices.Sorted(maps.Keys(extensions)), ", "))
		}
		for _, p := range parts {
			need[p] = true
			if !slices.Contains(packages, p) {
				install = append(install, p)
			}
		}
	}
	for _, name := range host.SplitArgs(extensionsOf(packages)) {
		for _, p := range extensions[name] {
			if !need[p] && !slices.Contains(uninstall, p) {
				uninstall = append(uninstall, p)
			}
		}
	}
	return install, uninstall, nil
}

// fetch stages an image or, for a deployment without an image, its commit. If a reference to the image is known, fetch
// uses it, so that the verification stays the same. fetch repeats what failed until the image is staged, which a failed
// program may have done.
func (o *RPMOSTree) fetch(ctx context.Context, d deployments, image string) error {
	if err := isImage(image); err != nil {
		return err
	}
	isMissing := func(error) bool {
		d, err := o.deployments(ctx)
		return err != nil || d.busy || d.next.image() != image
	}
	if ref, ok := strings.CutPrefix(image, ostreeImage); ok {
		ref, commit, _ := strings.Cut(ref, "@")
		return o.rpm.RunRetrying(ctx, isMissing, "rebase", ref, commit)
	}
	if o.usesBootc(d, image) {
		return o.bootc.RunRetrying(ctx, isMissing, "switch", "--transport", "registry", image)
	}
	return o.rpm.RunRetrying(ctx, isMissing, "rebase", "--experimental", d.referenceTo(image))
}

// usesBootc reports whether bootc stages an image, and not rpm-ostree.
func (o *RPMOSTree) usesBootc(d deployments, image string) bool {
	transport, _ := transportOf(image)
	return o.bootc.Path != "" && !o.is.coreOS && !d.next.layered() && !d.booted.layered() && transport == ""
}

// swapKernel replaces the kernel of the image by another kernel, or restores the kernel of the image.
func (o *RPMOSTree) swapKernel(ctx context.Context, next deployment, want string) error {
	is := kernelTypeOf(next.Packages)
	added := slices.DeleteFunc(slices.Clone(next.Packages), func(p string) bool {
		return kernelTypeOf([]string{p}) == "default"
	})
	var args []string
	switch {
	case is == "default":
		args = append([]string{"override", "remove"}, kernelPackages("default", o.is.major)...)
		args = append(args, each("--install=", kernelPackages(want, o.is.major))...)
	case want == "default":
		removed := slices.DeleteFunc(slices.Clone(next.Removals), func(p string) bool {
			return !slices.Contains(kernels["default"], p)
		})
		args = append([]string{"override", "reset"}, removed...)
		args = append(args, each("--uninstall=", added)...)
	default:
		return o.layer(ctx, kernelPackages(want, o.is.major), added)
	}
	return o.rpm.RunRetrying(ctx, isBusy, args...)
}

// kernelPackages returns the packages of a kernel type in a release. Release 8 has no package of core modules.
func kernelPackages(kind, major string) []string {
	return slices.DeleteFunc(slices.Clone(kernels[kind]), func(p string) bool {
		return major == "8" && p == "kernel-modules-core"
	})
}

// layer installs and uninstalls packages in one transaction.
func (o *RPMOSTree) layer(ctx context.Context, install, uninstall []string) error {
	switch {
	case len(install) > 0:
		args := append([]string{"install"}, install...)
		return o.rpm.RunRetrying(ctx, isBusy, append(args, each("--uninstall=", uninstall)...)...)
	case len(uninstall) > 0:
		return o.rpm.RunRetrying(ctx, isBusy, append([]string{"uninstall"}, uninstall...)...)
	}
	return nil
}

// verify checks that the next boot has the result of the step. Without this check, the daemon would find only after the
// reboot that a staged deployment was dropped silently.
func (o *RPMOSTree) verify(ctx context.Context, want host.OS, step host.Step) error {
	d, err := o.deployments(ctx)
	if err != nil {
		return err
	}
	if err := differs(d.next.os(o.is), want, step); err != nil {
		return err
	}
	return o.nextFits(d)
}

// differs returns an error if the part of the OS that a step stages is not as wanted.
func differs(is, want host.OS, step host.Step) error {
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
			return fmt.Errorf("rpm-ostree reported no error, but the next boot has the %s %q, not %q", part.verb,
				part.is, part.want)
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

// isBusy reports whether a program failed because of another transaction.
func isBusy(err error) bool {
	var f *machine.Failure
	return errors.As(err, &f) && strings.Contains(f.Said, "ransaction in progress")
}

// kargsChange returns the smallest edit of the argument list all. After the edit, those arguments in all that before or
// after names are exactly after, in order. The edit keeps the longest prefix of after that all already has. The
// arguments del are removed, then add is appended. Each word of del removes its first occurrence, as in ostree.
// Arguments in neither before nor after stay.
func kargsChange(all, before, after string) (del, add []string) {
	want := host.SplitArgs(after)
	managed := append(host.SplitArgs(before), want...)
	is := slices.DeleteFunc(host.SplitArgs(all), func(a string) bool { return !slices.Contains(managed, a) })
	for n := len(want); ; n-- {
		if gone, kept := lastOf(is, want[:n]); slices.Equal(kept, want[:n]) {
			return gone, want[n:]
		}
	}
}

// lastOf splits the kernel arguments of a machine. For each argument, lastOf keeps as many of the last occurrences as
// wanted contains.
func lastOf(list, wanted []string) (gone, kept []string) {
	spare := map[string]int{}
	for _, word := range list {
		spare[word]++
	}
	for _, word := range wanted {
		spare[word]--
	}
	for _, word := range list {
		if spare[word]--; spare[word] >= 0 {
			gone = append(gone, word)
		} else {
			kept = append(kept, word)
		}
	}
	return gone, kept
}

// kernels are the packages of each kernel type. The image contains the packages of the first type; the packages of the
// other types replace them.
var kernels = map[string][]string{
	"default":   {"kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"},
	"realtime":  {"kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra"},
	"64k-pages": {"kernel-64k-core", "kernel-64k-modules", "kernel-64k-modules-core", "kernel-64k-modules-extra"},
}

// kernelTypeOf returns the kernel type of a deployment from its requested packages.
func kernelTypeOf(packages []string) string {
	for kind, begins := range map[string]string{"realtime": "kernel-rt-", "64k-pages": "kernel-64k-"} {
		if slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(p, begins) }) {
			return kind
		}
	}
	return "default"
}

// extensions are the names that configs may use, with the packages of each.
var extensions = map[string][]string{
	"ipsec":                {"NetworkManager-libreswan", "libreswan"},
	"kerberos":             {"krb5-workstation", "libkadm5"},
	"kernel-devel":         {"kernel-devel", "kernel-headers"},
	"sandboxed-containers": {"kata-containers"},
	"sysstat":              {"sysstat"},
	"two-node-ha":          {"fence-agents-all", "pacemaker", "pcs"},
	"usbguard":             {"usbguard"},
	"wasm":                 {"crun-wasm"},
}

// extensionsOf returns the extensions whose packages are all requested.
func extensionsOf(packages []string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(extensions)) {
		if !slices.ContainsFunc(extensions[name], func(p string) bool { return !slices.Contains(packages, p) }) {
			names = append(names, name)
		}
	}
	return host.JoinArgs(names)
}
