package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// TestWhatStopsAStepIsToldBefore asks the kernel of a real machine, and then makes the change: what was told stops it,
// and what was not told does not.
func TestWhatStopsAStepIsToldBefore(t *testing.T) {
	asRoot(t)
	const size = 40 << 10
	file := host.Value{Entry: host.Entry{Kind: host.File, Mode: 0o644, Digest: "new"}}
	ofUser := file
	ofUser.Entry.Owner = host.Owner{UID: 1500, GID: 1500}
	was := host.Value{Entry: host.Entry{Kind: host.File, Mode: 0o644, Digest: "old"}}
	dir := host.Value{Entry: host.Entry{Kind: host.Dir, Mode: 0o755}}
	written := host.Step{Verb: host.Write, Target: "/d/a", Before: was, After: file}
	// refused are the calls that the kernel refuses in some cases.
	refused := map[string]string{
		"an owner whose quota is used up": "chown", "a label that a security module refuses": "setxattr",
	}
	for says, c := range map[string]struct {
		// prepare changes the machine at a directory, in which /d/a is a file.
		prepare func(t *testing.T, root string)
		step    host.Step
		kind    host.BlockerKind
		at      string
	}{
		"nothing":                    {step: written},
		"a file in a new directory":  {step: host.Step{Verb: host.Write, Target: "/new/x/a", After: file}},
		"a change of a mode":         {step: host.Step{Verb: host.MakeDir, Target: "/d", Before: dir, After: dir}},
		"an immutable file":          {withAttribute("d/a", immutableFlag), written, host.Immutable, "/d/a"},
		"a file to append to":        {withAttribute("d/a", appendFlag), written, host.AppendOnly, "/d/a"},
		"an immutable directory":     {withAttribute("d", immutableFlag), written, host.Immutable, "/d"},
		"a directory to add to only": {withAttribute("d", appendFlag), written, host.AppendOnly, "/d"},
		"an immutable directory above a new one": {
			withAttribute("d", immutableFlag),
			host.Step{Verb: host.Write, Target: "/d/new/a", After: file},
			host.Immutable, "/d",
		},
		"the removal of an immutable file": {
			withAttribute("d/a", immutableFlag),
			host.Step{Verb: host.Remove, Target: "/d/a", Before: was},
			host.Immutable, "/d/a",
		},
		"a file that is a mount": {mountedOn("d/a", "d/a", unix.MS_BIND, ""), written, host.MountPoint, "/d/a"},
		"a file below a read-only mount": {
			mountedOn("none", "d", unix.MS_RDONLY, ""),
			host.Step{Verb: host.Write, Target: "/d/b", After: file},
			host.ReadOnlyMount, "/d",
		},
		"a file below a writable mount": {
			mountedOn("none", "d", 0, ""),
			host.Step{Verb: host.Write, Target: "/d/b", After: file},
			host.InMemory, "/d",
		},
		"too little space": {
			mountedOn("none", "d", 0, "size=16k"),
			host.Step{Verb: host.Write, Target: "/d/b", After: file},
			host.Full,
			"/d",
		},
		"just enough space": {
			mountedOn("none", "d", 0, "size=40k"),
			host.Step{Verb: host.Write, Target: "/d/b", After: file},
			host.InMemory, "/d",
		},
		"the removal of a file in memory": {
			func(t *testing.T, root string) {
				mountedOn("none", "d", 0, "")(t, root)
				if err := os.WriteFile(filepath.Join(root, "d/a"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}, host.Step{Verb: host.Remove, Target: "/d/a", Before: was}, "", "",
		},
		"no more files": {
			mountedOn("none", "d", 0, "nr_inodes=1"),
			host.Step{Verb: host.Write, Target: "/d/b", After: file},
			host.NoInodes, "/d",
		},
		"an owner whose quota is used up": {
			step: host.Step{Verb: host.Write, Target: "/d/b", After: ofUser},
			kind: host.Denied, at: "/d",
		},
		"a label that a security module refuses": {
			func(t *testing.T, root string) {
				if err := unix.Setxattr(filepath.Join(root, "d/a"), "user.label", []byte("x"), 0); err != nil {
					t.Fatal(err)
				}
			}, written, host.Denied, "/d",
		},
		"a name that is too long": {
			step: host.Step{Verb: host.Write, Target: "/d/" + strings.Repeat("n", 256), After: file},
			kind: host.Denied, at: "/d",
		},
		"a directory that is mounted read-only": {
			readOnlyOn("d", "d"), host.Step{Verb: host.Write, Target: "/d/b", After: file}, host.ReadOnlyMount, "/d",
		},
		"a file that is mounted read-only": {readOnlyOn("d/a", "d/a"), written, host.MountPoint, "/d/a"},
		"the mode of a directory that is mounted read-only": {
			readOnlyOn("d", "d"),
			host.Step{Verb: host.MakeDir, Target: "/d", Before: dir, After: dirOfMode(0o700)},
			host.ReadOnlyMount, "/d",
		},
		"the mode of a directory that is mounted": {
			prepare: mountedOn("d", "d", unix.MS_BIND, ""),
			step:    host.Step{Verb: host.MakeDir, Target: "/d", Before: dir, After: dirOfMode(0o700)},
		},
		"the removal of a directory that is mounted": {
			mountedOn("none", "d", 0, ""),
			host.Step{Verb: host.Remove, Target: "/d", Before: dir},
			host.MountPoint, "/d",
		},
		"the removal of a directory that somebody uses stops nothing": {
			step: host.Step{Verb: host.Remove, Target: "/d", Before: dir},
		},
		"the removal of an immutable directory": {
			withAttribute("d", immutableFlag),
			host.Step{Verb: host.Remove, Target: "/d", Before: dir},
			host.Immutable, "/d",
		},
		"a link in place of a file that is a mount": {
			mountedOn("d/a", "d/a", unix.MS_BIND, ""),
			host.Step{Verb: host.MakeLink, Target: "/d/a", Before: was, After: linkTo("b")},
			host.MountPoint, "/d/a",
		},
		"a link in an immutable directory": {
			withAttribute("d", immutableFlag),
			host.Step{Verb: host.MakeLink, Target: "/d/l", After: linkTo("a")},
			host.Immutable, "/d",
		},
		"a link to an immutable file": {
			prepare: withAttribute("d/a", immutableFlag),
			step:    host.Step{Verb: host.MakeLink, Target: "/d/l", After: linkTo("a")},
		},
		"a second name of a file": {step: host.Step{Verb: host.MakeLink, Target: "/d/h", After: secondNameOf("/d/a")}},
		"a second name of an immutable file": {
			withAttribute("d/a", immutableFlag),
			host.Step{Verb: host.MakeLink, Target: "/d/h", After: secondNameOf("/d/a")},
			host.Immutable, "/d/a",
		},
		"a second name of a file to append to": {
			withAttribute("d/a", appendFlag),
			host.Step{Verb: host.MakeLink, Target: "/d/h", After: secondNameOf("/d/a")},
			host.AppendOnly, "/d/a",
		},
		"a second name of a file on another file system": {
			func(t *testing.T, root string) {
				mountedOn("none", "d", 0, "")(t, root)
				if err := os.WriteFile(filepath.Join(root, "d/a"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			},
			host.Step{Verb: host.MakeLink, Target: "/e/h", After: secondNameOf("/d/a")},
			host.OtherSystem, "/d/a",
		},
		"a second name of a file that is a mount": {
			mountedOn("d/a", "d/a", unix.MS_BIND, ""),
			host.Step{Verb: host.MakeLink, Target: "/d/h", After: secondNameOf("/d/a")},
			host.OtherSystem, "/d/a",
		},
		"a second name of a file below another mount of its file system": {
			mountedOn("d", "e", unix.MS_BIND, ""),
			host.Step{Verb: host.MakeLink, Target: "/e/h", After: secondNameOf("/d/a")},
			host.OtherSystem, "/d/a",
		},
		"a used directory": {
			func(t *testing.T, root string) {
				if err := os.WriteFile(filepath.Join(root, "d/b\n\x1b[2J"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}, host.Step{Verb: host.Write, Target: "/d", Before: dir, After: file}, host.UsedDir, "/d",
		},
	} {
		t.Run(says, func(t *testing.T) {
			root := t.TempDir()
			if err := errors.Join(os.Mkdir(filepath.Join(root, "d"), 0o755), os.Mkdir(filepath.Join(root, "e"), 0o755),
				os.WriteFile(filepath.Join(root, "d/a"), []byte("old"), 0o644)); err != nil { //nolint:gosec // a test's
				t.Fatal(err)
			}
			if c.prepare != nil {
				c.prepare(t, root)
			}
			r, err := Open(root)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close() //nolint:errcheck // a directory of the test
			r.trap = func(call, _ string) error {
				if call == refused[says] {
					return unix.EDQUOT
				}
				return nil
			}
			var before, after unix.Stat_t
			bad := unix.Stat(filepath.Join(root, "d"), &before)
			found := r.Blockers([]host.Step{c.step}, func(host.Digest) int64 { return size })
			err = errors.Join(bad, unix.Stat(filepath.Join(root, "d"), &after))
			if err != nil || before.Mtim != after.Mtim || before.Ctim != after.Ctim {
				t.Errorf("who watches the directory has seen a change: it was %+v and is %+v, %v", before,
					after, err)
			}
			switch {
			case c.kind == "" && len(found) > 0:
				t.Errorf("got %v", found)
			case c.kind != "" && (len(found) != 1 || found[0].Kind != c.kind || found[0].At != c.at ||
				found[0].Path != c.step.Target || !strings.Contains(found[0].String(), "node") ||
				strings.ContainsAny(found[0].String(), "\n\x1b")):
				t.Errorf("got %+v, want %s at %s", found, c.kind, c.at)
			}
			if err := carryOut(r, c.step, size); (err == nil) != (c.kind == "" || c.kind == host.InMemory) {
				t.Errorf("told %v, and the step ended with %v", found, err)
			}
		})
	}
}

func dirOfMode(mode uint32) host.Value {
	return host.Value{Entry: host.Entry{Kind: host.Dir, Mode: mode}}
}

func linkTo(target string) host.Value {
	return host.Value{Entry: host.Entry{Kind: host.Link, Target: target}}
}

func secondNameOf(p string) host.Value {
	return host.Value{Entry: host.Entry{Kind: host.Hard, Target: p}}
}

// readOnlyOn mounts a path of the root on another one, read-only, until the test ends.
func readOnlyOn(source, p string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		mountedOn(source, p, unix.MS_BIND, "")(t, root)
		const again = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY
		if err := unix.Mount("", filepath.Join(root, p), "", again, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// carryOut makes the change of a step, with parents.
func carryOut(r *Root, s host.Step, size int) error {
	switch s.Verb {
	case host.Remove:
		if err := r.Remove(s.Target); !errors.Is(err, host.ErrNotEmpty) {
			return err
		}
		return nil // as the step does
	case host.MakeLink:
		return r.Link(s.Target, s.After.Entry)
	case host.MakeDir:
		return r.Mkdir(s.Target, s.After.Entry)
	}
	if err := r.MkdirAll(filepath.Dir(s.Target)); err != nil {
		return err
	}
	return r.Write(s.Target, s.After.Entry, make([]byte, size))
}

// The attributes of a file as the kernel's fs.h has them: FS_IMMUTABLE_FL and FS_APPEND_FL.
const immutableFlag, appendFlag = 0x10, 0x20

// withAttribute sets an attribute of chattr until the test ends.
func withAttribute(p string, attribute int) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		set := func(on bool) error {
			f, err := os.Open(filepath.Join(root, p)) //nolint:gosec // a path of the test
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // only opened
			flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
			if flags &^= attribute; on {
				flags |= attribute
			}
			return errors.Join(err, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags))
		}
		err := set(true)
		unable := errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP)
		if unable && os.Getenv("CI") == "" {
			t.Skipf("the file system of %s has no attributes: set TMPDIR to a directory on ext4, xfs or btrfs", root)
		}
		if err != nil {
			t.Fatalf("setting an attribute of %s: %v; if its file system has none, set TMPDIR to a directory on ext4, "+
				"xfs or btrfs", root, err)
		}
		t.Cleanup(func() {
			if err := set(false); err != nil {
				t.Error(err)
			}
		})
	}
}

// mountedOn mounts a path of the root, or a file system in memory, until the test ends.
func mountedOn(source, p string, flags uintptr, options string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		kind := "tmpfs"
		if flags&unix.MS_BIND != 0 {
			kind, source = "", filepath.Join(root, source)
		}
		at := filepath.Join(root, p)
		if err := unix.Mount(source, at, kind, flags, options); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
}
