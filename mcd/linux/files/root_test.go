package files

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// rootHost is the part of a host that is its files, in a new directory.
func rootHost(t *testing.T) (host.Host, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	must(t, os.Mkdir(filepath.Join(dir, "etc"), 0o755))
	return host.Host{Files: root, Disk: root, Journal: root.Journal(), Store: root.Store(), Same: root.Same}, dir
}

// withLabel is a host whose file has an attribute of a person's, and a label where this may be given.
func withLabel(t *testing.T, p string) (h host.Host, dir string, want label) {
	t.Helper()
	h, dir = rootHost(t)
	if err := h.Files.Write(p, host.Entry{Mode: 0o640}, []byte("old")); err != nil {
		t.Fatal(err)
	}
	want = label{"user.by": []byte("a person")}
	if h.Files.(*Root).privileged {
		want[securityLabel] = []byte("system_u:object_r:special_t:s0\x00")
	}
	for name, value := range want {
		err := unix.Lsetxattr(dir+p, name, value, 0)
		switch {
		case err != nil && name == securityLabel: // a sandbox may not let us
			t.Logf("tried without a label of SELinux: %v", err)
			delete(want, name)
		case err != nil && os.Getenv("CI") != "":
			t.Fatalf("the file system of %s has no attributes: %v; set TMPDIR to a directory on ext4, xfs or btrfs",
				dir, err)
		case err != nil:
			t.Skipf("the file system of %s has no attributes: %v", dir, err)
		}
	}
	if err := unix.Lsetxattr(dir+p, "trusted.other", []byte("x"), 0); err == nil {
		t.Log("an attribute that is not to be carried is there")
	}
	return h, dir, want
}

func hasLabel(t *testing.T, h host.Host, p string, want label) {
	t.Helper()
	got, err := h.Files.(*Root).labelOf(p, host.Owner{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%s has %q, want %q", p, got, want)
	}
	for name, value := range want {
		if string(got[name]) != string(value) {
			t.Errorf("%s has %q, want %q", p, got, want)
		}
	}
	if n, err := unix.Lgetxattr(h.Files.(*Root).below.Name()+p, "trusted.other", nil); err == nil && n > 0 &&
		len(want) > 0 {
		t.Errorf("%s has an attribute that is not to be carried", p)
	}
}

func TestWhatIsAttachedToAFile(t *testing.T) {
	const p, orig = "/etc/labelled", host.OrigDir + "/etc/labelled" + host.OrigSuffix
	for _, c := range []struct {
		says string
		do   func(t *testing.T, h host.Host)
	}{
		{"stays when the file is overwritten", func(t *testing.T, h host.Host) {
			must(t, h.Files.Write(p, host.Entry{Mode: 0o600}, []byte("new")))
		}},
		{"stays when the file came to be after the machine was looked at", func(t *testing.T, h host.Host) {
			must(t, h.Store.Keep(nil))
			h.Disk.Batch()
			must(t, h.Files.Write(p, host.Entry{Mode: 0o600}, []byte("new")))
			must(t, h.Disk.Flush(t.Context()))
		}},
		{"comes back when a file that was removed comes back", func(t *testing.T, h host.Host) {
			must(t, h.Store.Keep([]host.Old{{Path: p, Digest: host.DigestOf([]byte("old"))}}))
			must(t, h.Files.Remove(p))
			must(t, h.Files.Write(p, host.Entry{Mode: 0o640}, []byte("old")))
		}},
		{"comes back when a link was there meanwhile, also by another process", func(t *testing.T, h host.Host) {
			must(t, h.Store.Keep([]host.Old{{Path: p, Digest: host.DigestOf([]byte("old"))}}))
			must(t, h.Files.Link(p, host.Entry{Target: "/dev/null"}))
			h.Files.(*Root).store = nil
			must(t, h.Files.Write(p, host.Entry{Mode: 0o640}, []byte("old")))
		}},
		{"goes with the original that is put aside, and comes back with it", func(t *testing.T, h host.Host) {
			must(t, h.Files.(*Root).MkdirAll(filepath.Dir(orig)))
			must(t, h.Store.Keep([]host.Old{{Path: p, Digest: host.DigestOf([]byte("old"))}}))
			must(t, h.Files.Link(p, host.Entry{Target: "/dev/null"}))
			must(t, h.Files.Write(orig, host.Entry{Mode: 0o640}, []byte("old")))
			must(t, h.Store.Sweep()) // the update is over; the next takes the link out again
			must(t, h.Store.Keep([]host.Old{{Path: orig, Digest: host.DigestOf([]byte("old"))}}))
			must(t, h.Files.Remove(orig))
			must(t, h.Files.Write(p, host.Entry{Mode: 0o640}, []byte("old")))
		}},
		{"goes aside with an original after its place was taken", func(t *testing.T, h host.Host) {
			must(t, h.Files.(*Root).MkdirAll(filepath.Dir(orig)))
			must(t, h.Files.Write(p, host.Entry{Mode: 0o640}, []byte("new")))
			must(t, h.Files.Write(orig, host.Entry{Mode: 0o640}, []byte("old")))
			must(t, h.Files.Remove(p))
			must(t, h.Files.Write(p, host.Entry{Mode: 0o640}, []byte("x")))
			if got, _ := h.Files.(*Root).labelOf(p, host.Owner{}); got["user.by"] != nil {
				t.Error("nobody kept it, and it is there")
			}
			must(t, h.Store.Keep([]host.Old{{Path: orig, Digest: host.DigestOf([]byte("old"))}}))
			must(t, h.Files.Remove(orig))
			must(t, h.Files.Remove(p))
			must(t, h.Files.Write(p, host.Entry{Mode: 0o640}, []byte("old")))
		}},
	} {
		t.Run(c.says, func(t *testing.T) {
			h, _, want := withLabel(t, p)
			c.do(t, h)
			hasLabel(t, h, p, want)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
