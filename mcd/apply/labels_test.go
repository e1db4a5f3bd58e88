package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
)

// TestNewFilesAreLabelledBeforeProgramsReadThem: a file has the label of the policy when a service is restarted, and in
// the end; a label that cannot be restored is told, and stops nothing.
func TestNewFilesAreLabelledBeforeProgramsReadThem(t *testing.T) {
	for sentence, actions := range map[string][]disruption.Action{
		"without an action": nil,
		"with a restart":    {{Type: disruption.ActionRestart, Service: "vendor.service"}},
		"with a reboot":     {reboot},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := newMachine()
			to := machineconfig.Config{HasIgnition: true}
			to.Ignition.Storage.Files = []ign.File{{
				Node:          ign.Node{Path: "/etc/new"},
				FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: ptr("data:,x")}},
			}}
			h := m.Host()
			labelled, early, warned := false, 0, 0
			h.Relabel = func(context.Context) error {
				is, err := h.Files.Stat("/etc/new")
				labelled = err == nil && is.Kind == host.File
				return errors.New("no such label")
			}
			runner := apply.Runner{
				Host: h, OnWarning: func(error) { warned++ },
				OnStep: func(s host.Step, _ bool) {
					if s.IsAction() && !labelled {
						early++
					}
				},
			}
			p, contents := planOn(t, h, way(t, h, machineconfig.Config{}, to, actions...))
			done, err := runner.Run(t.Context(), p, contents)
			if err != nil || done.Why != nil || !labelled || early > 0 || warned == 0 {
				t.Errorf("%+v, %v; labelled %t, %d actions before, %d warnings\n%s", done, err, labelled, early,
					warned, p)
			}
		})
	}
}

// label is the attribute with the label of a file. This machine has no policy, so the kernel gives new files none.
const label = "security.selinux"

// setLabel gives a path below a directory a label, and does not follow a link there.
func setLabel(dir, p string) error {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, strings.TrimPrefix(p, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_IN_ROOT,
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // restorecon -i
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setxattr(fmt.Sprintf("/proc/self/fd/%d", fd), label, []byte("etc_t"), 0)
}

// unlabelled returns the paths below a directory that have no label, without the daemon's state and directories of
// enablement.
func unlabelled(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		p := strings.TrimPrefix(at, dir)
		switch {
		case err != nil:
			return err
		case p == host.StateDir:
			return fs.SkipDir
		}
		if _, err := unix.Lgetxattr(at, label, nil); errors.Is(err, unix.ENODATA) && p != "" {
			found = append(found, p)
		} else if err != nil && !errors.Is(err, unix.ENODATA) {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestWhereverADaemonDiesEachPathHasItsLabel kills the daemon after every k-th change of an update, and the next one
// after some changes of its rollback. In the end, each path has the label of the policy, as it had before.
func TestWhereverADaemonDiesEachPathHasItsLabel(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("CI runs the tests as root")
		}
		t.Skip("it sets labels, which takes root: run the tests as root, as make test does in CI")
	}
	for i, c := range crashCases(6) {
		dir := hosttest.TempDir(t)
		furnish(t, dir)
		w := rooted(dir)
		w.open = func(t *testing.T) host.Host {
			h, root, err := linux.OpenSimulated(dir, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { root.Close() })
			h.Relabel = func(context.Context) error {
				paths := root.Inherited()
				for _, p := range paths {
					if err := setLabel(dir, p); err != nil {
						return fmt.Errorf("%s: %w", p, err)
					}
				}
				root.Labelled(paths)
				return nil
			}
			return h
		}
		h := w.open(t)
		settleIn(t, h, c.from)
		old := w.tree(t)
		p, contents := planOn(t, h, way(t, h, c.from, c.to, c.actions...))
		r := rand.New(rand.NewPCG(uint64(i), 3))
		for k := 0; ; k++ {
			for _, p := range unlabelled(t, dir) { // what a new machine has, first of all
				if err := setLabel(dir, p); err != nil {
					t.Fatal(err)
				}
			}
			h, count := hosttest.Wrap(w.open(t), hosttest.CrashAfter(k))
			warn := func(err error) { t.Errorf("after %d changes: %v", k, err) }
			(apply.Runner{Host: h}).Run(t.Context(), p, contents) //nolint:errcheck // it dies
			for range 2 {
				died, _ := hosttest.Wrap(w.open(t), hosttest.CrashAfter(r.IntN(30)))
				(apply.Runner{Host: died}).Recover(t.Context()) //nolint:errcheck // it dies
			}
			for range 3 {
				if _, err := (apply.Runner{Host: w.open(t), OnWarning: warn}).Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if left := unlabelled(t, dir); len(left) > 0 {
				t.Errorf("case %d, killed after %d changes: %v have no label", i, k, left)
			}
			if count.N <= k {
				break
			}
			if w.tree(t) != old { // It got far enough for the new config.
				break
			}
		}
	}
}
