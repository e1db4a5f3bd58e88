package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// appUser is a user of the machine who wants to be root.
var appUser = host.Owner{UID: 1500, GID: 1500}

// asRoot skips a test that gives files to several users.
func asRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it gives files to other users, which takes root: run the tests as root, as make test does in CI")
	}
}

// appsMachine is a machine with directories of root, of app, and of everybody.
func appsMachine(t testing.TB) (r *Root, dir string) {
	t.Helper()
	asRoot(t)
	dir = t.TempDir()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for p, e := range map[string]host.Entry{
		"/etc/profile.d": {Mode: 0o755}, "/root/.ssh": {Mode: 0o700}, "/home/app": {Mode: 0o755, Owner: appUser},
		"/tmp": {Mode: 0o1777}, "/home/bob": {Mode: 0o755, Owner: host.Owner{UID: 1600, GID: 1600}},
	} {
		if err := errors.Join(r.MkdirAll(filepath.Dir(p)), r.Mkdir(p, e)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Write("/etc/shadow", host.Entry{Mode: 0o600}, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	return r, dir
}

// plant puts something of app's on the machine.
func plant(t testing.TB, at string, do func(at string) error) {
	t.Helper()
	if err := errors.Join(do(at), os.Lchown(at, appUser.UID, appUser.GID)); err != nil {
		t.Fatal(err)
	}
}

func plantLink(target string) func(string) error {
	return func(at string) error { return os.Symlink(target, at) }
}

// untouched checks that root's files are as they were.
func untouched(t testing.TB, dir string) {
	t.Helper()
	for p, mode := range map[string]uint32{
		"/etc/shadow": 0o100600, "/etc/profile.d": 0o40755, "/root/.ssh": 0o40700,
		"/etc": 0o40755,
	} {
		var is unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, p), &is); err != nil || is.Uid != 0 || is.Mode != mode {
			t.Errorf("%s has owner %d and mode %o, %v", p, is.Uid, is.Mode, err)
		}
	}
	for _, p := range []string{"/etc/profile.d", "/root/.ssh"} {
		if in, err := os.ReadDir(filepath.Join(dir, p)); err != nil || len(in) > 0 {
			t.Errorf("%s has %v in it, %v", p, in, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "etc/shadow")); err != nil || string(text) != "secret" {
		t.Errorf("shadow is %q, %v", text, err)
	}
}

// TestAUsersLinkLeadsNoOperationToFilesOfRoot does everything that a host does below a link that app put there.
func TestAUsersLinkLeadsNoOperationToFilesOfRoot(t *testing.T) {
	mine := host.Entry{Mode: 0o644, Owner: appUser}
	for says, do := range map[string]func(r *Root, p string) error{
		"write":      func(r *Root, p string) error { return r.Write(p, mine, []byte("evil")) },
		"mkdir":      func(r *Root, p string) error { return r.Mkdir(p, mine) },
		"link":       func(r *Root, p string) error { return r.Link(p, host.Entry{Target: "/x", Owner: appUser}) },
		"hard link":  func(r *Root, p string) error { return r.Link(p, host.Entry{Kind: host.Hard, Target: "/home/app/file"}) },
		"remove":     func(r *Root, p string) error { return r.Remove(p) },
		"read":       func(r *Root, p string) error { _, err := r.Read(p); return err },
		"look":       func(r *Root, p string) error { _, err := r.Stat(p); return err },
		"keep":       func(r *Root, p string) error { return r.Store().Keep([]host.Old{{Path: p, Digest: "x"}}) },
		"list":       func(r *Root, p string) error { _, err := r.List(filepath.Dir(p)); return err },
		"same":       func(r *Root, p string) error { _, err := r.Same(p, "/etc/shadow"); return err },
		"link to it": func(r *Root, p string) error { return r.Link("/tmp/h", host.Entry{Kind: host.Hard, Target: p}) },
	} {
		for _, link := range []struct{ at, target, path string }{
			{"/home/app/conf", "/etc/profile.d", "/home/app/conf/app.sh"},
			{"/home/app/conf", "/etc", "/home/app/conf/shadow"},
			{"/home/app/.ssh", "/root/.ssh", "/home/app/.ssh/authorized_keys"},
			{"/home/app/.ssh", "../../root/.ssh", "/home/app/.ssh/authorized_keys"},
			{"/tmp/app", "/etc", "/tmp/app/shadow"},
		} {
			t.Run(says+" "+link.path, func(t *testing.T) {
				r, dir := appsMachine(t)
				must(t, r.Write("/home/app/file", mine, nil))
				plant(t, filepath.Join(dir, link.at), plantLink(link.target))
				err := do(r, link.path)
				var unsafe *host.UnsafePathError
				if !errors.As(err, &unsafe) || unsafe.Component != link.at || unsafe.UID != appUser.UID {
					t.Errorf("the error is %v", err)
				}
				untouched(t, dir)
			})
		}
	}
}

// TestWhatStandsInAFilesPlace is about the last component of a path, in a directory of app's.
func TestWhatStandsInAFilesPlace(t *testing.T) {
	const p = "/home/app/file"
	fifo := func(at string) error { return unix.Mkfifo(at, 0o600) }
	for says, there := range map[string]func(dir string) func(string) error{
		"a link to shadow":      func(string) func(string) error { return plantLink("/etc/shadow") },
		"a link upwards":        func(string) func(string) error { return plantLink("../../etc/shadow") },
		"a FIFO":                func(string) func(string) error { return fifo },
		"a link to a directory": func(string) func(string) error { return plantLink("/etc/profile.d") },
	} {
		for _, name := range []string{p, "/home/app/" + temporary("file")} {
			t.Run(says+" at "+name, func(t *testing.T) {
				r, dir := appsMachine(t)
				plant(t, filepath.Join(dir, name), there(dir))
				if _, err := r.Read(p); err == nil {
					t.Error("it was read")
				}
				if err := r.Write(p, host.Entry{Mode: 0o600, Owner: appUser}, []byte("text")); err != nil {
					t.Fatal(err)
				}
				if is, err := r.Stat(p); err != nil || is.Kind != host.File || is.Owner != appUser {
					t.Errorf("there is %v, %v", is, err)
				}
				untouched(t, dir)
			})
		}
	}
}

func TestAHardLinkGivesNobodyAnotherUsersFile(t *testing.T) {
	const p = "/home/app/file"
	for _, place := range []string{p, "/tmp/file"} {
		r, dir := appsMachine(t)
		must(t, os.Link(filepath.Join(dir, "etc/shadow"), filepath.Join(dir, place)))
		if _, err := r.Read(place); !errors.As(err, new(*host.UnsafePathError)) {
			t.Errorf("reading %s: %v", place, err)
		}
		if err := r.Link("/etc/h", host.Entry{Kind: host.Hard, Target: place}); !errors.As(err,
			new(*host.UnsafePathError)) {
			t.Errorf("a further name for %s: %v", place, err)
		}
		must(t, r.Write(place, host.Entry{Mode: 0o644, Owner: appUser}, []byte("new")))
		untouched(t, dir)
	}
	r, dir := appsMachine(t)
	must(t, r.Write(p, host.Entry{Mode: 0o644}, []byte("root's")))
	must(t, r.Link("/home/app/other", host.Entry{Kind: host.Hard, Target: p}))
	if same, err := r.Same(p, "/home/app/other"); err != nil || !same {
		t.Errorf("a hard link within one user's directory is %t, %v", same, err)
	}
	untouched(t, dir)
}

func TestADirectoryIsNotTakenFromAThirdUser(t *testing.T) {
	r, dir := appsMachine(t)
	must(t, os.Mkdir(filepath.Join(dir, "tmp/d"), 0o700))
	must(t, os.Chown(filepath.Join(dir, "tmp/d"), 1600, 1600))
	if err := r.Mkdir("/tmp/d", host.Entry{Mode: 0o755, Owner: appUser}); !errors.As(err, new(*host.UnsafePathError)) {
		t.Errorf("it says %v", err)
	}
	if is, err := r.Stat("/tmp/d"); err != nil || is.Owner.UID != 1600 || is.Mode != 0o700 {
		t.Errorf("it is %v, %v", is, err)
	}
}

// TestAUserExchangesThingsBetweenTwoCalls has app exchange names while the daemon is between two system calls.
func TestAUserExchangesThingsBetweenTwoCalls(t *testing.T) {
	for _, op := range []struct {
		says string
		do   func(r *Root) error
	}{
		{"write", func(r *Root) error {
			return r.Write("/home/app/conf/file", host.Entry{Mode: 0o644, Owner: appUser}, []byte("new"))
		}},
		{"mkdir", func(r *Root) error { return r.Mkdir("/home/app/conf/dir", host.Entry{Mode: 0o755, Owner: appUser}) }},
		{"link", func(r *Root) error {
			return r.Link("/home/app/conf/link", host.Entry{Target: "x", Owner: appUser})
		}},
		{"remove", func(r *Root) error { return r.Remove("/home/app/conf/shadow") }},
	} {
		for _, call := range []string{
			"create", "write", "chown", "chmod", "fsync", "rename", "mkdir", "symlink",
			"unlink",
		} {
			t.Run(op.says+" before "+call, func(t *testing.T) {
				r, dir := appsMachine(t)
				must(t, r.Mkdir("/home/app/conf", host.Entry{Mode: 0o755, Owner: appUser}))
				must(t, r.Write("/home/app/conf/shadow", host.Entry{Mode: 0o644, Owner: appUser}, nil))
				plant(t, filepath.Join(dir, "home/app/evil"), plantLink("/etc"))
				done := false
				r.Trap(func(name, _ string) error {
					if name != call || done {
						return nil
					}
					done = true
					conf := filepath.Join(dir, "home/app/conf")
					return unix.Renameat2(unix.AT_FDCWD, conf, unix.AT_FDCWD, filepath.Join(dir, "home/app/evil"),
						unix.RENAME_EXCHANGE)
				})
				if err := op.do(r); err != nil && !errors.As(err, new(*host.UnsafePathError)) {
					t.Error(err)
				}
				untouched(t, dir)
			})
		}
	}
}

// TestALinkIsExchangedBeforeItGetsItsOwner has other files in the place of a link that was made to get an owner.
func TestALinkIsExchangedBeforeItGetsItsOwner(t *testing.T) {
	r, dir := appsMachine(t)
	must(t, os.Link(filepath.Join(dir, "etc/shadow"), filepath.Join(dir, "home/app/link")))
	a, err := r.at("/home/app/link")
	must(t, err)
	defer a.close()
	if err := a.chownLink(host.Entry{Owner: appUser}); !errors.As(err, new(*host.UnsafePathError)) {
		t.Errorf("a hard link to shadow would have got an owner: %v", err)
	}
	untouched(t, dir)
}

func TestWhatIsAttachedToAUsersFileStaysTheUsers(t *testing.T) {
	const p = "/etc/labelled"
	for _, c := range []struct {
		says           string
		was            host.Entry
		now            host.Owner
		label, persons bool
	}{
		{"root's file", host.Entry{Mode: 0o644}, host.Owner{}, true, true},
		{"root's file that goes to a user", host.Entry{Mode: 0o644}, appUser, true, true},
		{"a user's file that goes to root", host.Entry{Mode: 0o644, Owner: appUser}, host.Owner{}, false, false},
		{"a user's file that stays the user's", host.Entry{Mode: 0o644, Owner: appUser}, appUser, false, true},
		{"a user's file that goes to another one", host.Entry{Mode: 0o644, Owner: appUser}, host.Owner{UID: 1600}, false, false},
		{"root's file that all can write", host.Entry{Mode: 0o666}, host.Owner{}, false, false},
		{"root's file that a group can write", host.Entry{Mode: 0o660, Owner: host.Owner{GID: 1500}}, host.Owner{}, false, false},
	} {
		for _, kept := range []bool{false, true} {
			t.Run(c.says, func(t *testing.T) {
				asRoot(t)
				h, dir, planted := withLabel(t, p)
				must(t, errors.Join(os.Chown(dir+p, c.was.Owner.UID, c.was.Owner.GID),
					os.Chmod(dir+p, fs.FileMode(c.was.Mode))))
				if kept { // and removed, so that what the store has counts
					must(t, h.Store.Keep([]host.Old{{Path: p, Digest: host.DigestOf([]byte("old"))}}))
					must(t, h.Files.Remove(p))
					h.Files.(*Root).store = nil
				}
				must(t, h.Files.Write(p, host.Entry{Mode: 0o644, Owner: c.now}, []byte("new")))
				for name, want := range map[string]bool{"user.by": c.persons, securityLabel: c.label &&
					planted[securityLabel] != nil} {
					n, err := unix.Lgetxattr(dir+p, name, nil)
					if got := err == nil && n > 0; got != want &&
						(name != securityLabel || planted[securityLabel] != nil) {
						t.Errorf("with %s is %t, %v; want %t", name, got, err, want)
					}
				}
			})
		}
	}
}
