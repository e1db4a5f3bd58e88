package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// attributes are attributes of a file as the kernel stores them: cap_net_raw for its program, an access control list in
// which the user 1234 may read, and one of an administrator.
var attributes = map[string][]byte{
	"security.capability": {1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	"system.posix_acl_access": {
		2, 0, 0, 0,
		1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 4, 0, 0xd2, 4, 0, 0, 4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
		16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, 32, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
	},
	"trusted.by": []byte("an administrator"),
}

// TestAnOriginalComesBackAsItWas replaces a file, and restores it: after a failed update, by another process after a
// crash, and when no config names its path any more. The new file has nothing of the original but its label.
func TestAnOriginalComesBackAsItWas(t *testing.T) {
	asRoot(t)
	const p = "/etc/tool"
	kept := host.OrigDir + p + host.OrigSuffix
	stored := host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("old"))}
	for says, restore := range map[string]func(t *testing.T, r *Root) error{
		"a rollback": func(_ *testing.T, r *Root) error {
			return r.Write(p, stored, []byte("old"))
		},
		"a rollback in a batch, after the new file was removed": func(t *testing.T, r *Root) error {
			r.Batch()
			return errors.Join(r.Remove(p), r.Write(p, stored, []byte("old")), r.Flush(t.Context()))
		},
		"a rollback by the next process": func(t *testing.T, r *Root) error {
			next, err := Open(r.below.Name())
			if err != nil {
				return err
			}
			t.Cleanup(func() { next.Close() }) //nolint:errcheck // a directory of the test
			return next.Write(p, stored, []byte("old"))
		},
		"the removal from the config": func(_ *testing.T, r *Root) error {
			is, err := r.Stat(p)
			return errors.Join(err, r.Store().Keep([]host.Old{
				{Path: p, Digest: is.Digest}, {Path: kept, Digest: stored.Digest},
			}), r.Write(p, stored, []byte("old")), r.Remove(kept))
		},
	} {
		t.Run(says, func(t *testing.T) {
			dir := t.TempDir()
			r, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close() //nolint:errcheck // a directory of the test
			at, then := filepath.Join(dir, p), time.Unix(1_600_000_000, 0)
			if err := errors.Join(r.MkdirAll(filepath.Dir(p)), r.MkdirAll(filepath.Dir(kept)),
				r.Write(p, stored, []byte("old"))); err != nil {
				t.Fatal(err)
			}
			for name, value := range attributes {
				if err := unix.Setxattr(at, name, value, 0); err != nil {
					t.Fatalf("setting %s on %s: %v", name, at, err)
				}
			}
			if err := os.Chtimes(at, then, then); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(r.Store().Keep([]host.Old{{Path: p, Digest: stored.Digest}}),
				r.Write(kept, stored, []byte("old")), r.Write(p, host.Entry{Mode: 0o644}, []byte("new"))); err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Getxattr(at, "security.capability", nil); err == nil {
				t.Errorf("the new file has the capabilities of the old one (%d bytes)", n)
			}
			if err := restore(t, r); err != nil {
				t.Fatal(err)
			}
			for name, value := range attributes {
				into := make([]byte, 256)
				if n, err := unix.Getxattr(at, name, into); err != nil || string(into[:n]) != string(value) {
					t.Errorf("%s is %x, %v; want %x", name, into[:max(n, 0)], err, value)
				}
			}
			if is, err := os.Stat(at); err != nil || !is.ModTime().Equal(then) {
				t.Errorf("it was changed at %v, %v; want %v", is.ModTime(), err, then)
			}
		})
	}
}

// TestAUsersFileGetsNoCapabilitiesBack: the user could write into the restored file before the daemon sets them.
func TestAUsersFileGetsNoCapabilitiesBack(t *testing.T) {
	r, dir := appsMachine(t)
	const p = "/home/app/tool"
	stored := host.Entry{Kind: host.File, Mode: 0o644, Owner: appUser, Digest: host.DigestOf([]byte("old"))}
	if err := r.Write(p, stored, []byte("old")); err != nil {
		t.Fatal(err)
	}
	for name, value := range attributes {
		if err := unix.Setxattr(dir+p, name, value, 0); err != nil {
			t.Fatalf("setting %s: %v", name, err)
		}
	}
	if err := errors.Join(r.Store().Keep([]host.Old{{Path: p, Digest: stored.Digest}}),
		r.Write(p, host.Entry{Mode: 0o644, Owner: appUser}, []byte("new")),
		r.Write(p, stored, []byte("old"))); err != nil {
		t.Fatal(err)
	}
	for name, back := range map[string]bool{
		"security.capability": false, "trusted.by": false, "system.posix_acl_access": true,
	} {
		if _, err := unix.Getxattr(dir+p, name, nil); (err == nil) != back {
			t.Errorf("%s: %v, want it back: %v", name, err, back)
		}
	}
}
