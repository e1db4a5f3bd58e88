package linux

import (
	"context"

	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// policyLoaded exists while the kernel has an SELinux policy, enforcing or not.
const policyLoaded = "/sys/fs/selinux/enforce"

// maxPaths is how many bytes of paths one call of the program gets: far less than the kernel allows.
const maxPaths = 64 << 10

// labeller runs the machine's restorecon, which knows the policy of the machine and its local rules.
type labeller struct {
	root *files.Root
	dir  string
}

// relabel is host.Relabel. A machine without restorecon has no policy whose labels anybody could restore. What the
// program does not label, it gets again in the next call.
func (l labeller) relabel(ctx context.Context) error {
	paths := l.root.Inherited()
	if len(paths) == 0 {
		return nil
	}
	program := machine.FindProgram(l.root, l.dir, "restorecon")
	if program.Path == "" || !machine.Exists(l.root, policyLoaded) {
		l.root.Labelled(paths)
		return nil
	}
	for len(paths) > 0 {
		n, bytes := 0, 0
		for n < len(paths) && (n == 0 || bytes+len(paths[n]) < maxPaths) {
			bytes += len(paths[n])
			n++
		}
		// A path that is gone by now is no error.
		if _, err := program.Run(ctx, machine.LookLimit, append([]string{"-i"}, paths[:n]...)...); err != nil {
			return err
		}
		l.root.Labelled(paths[:n])
		paths = paths[n:]
	}
	return nil
}
