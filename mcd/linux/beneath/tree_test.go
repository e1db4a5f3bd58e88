package beneath_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/beneath"
)

// layout makes a machine below a directory, from lines of "dir|link|file path uid mode|target".
func layout(t testing.TB, root, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		at := filepath.Join(root, f[1])
		var err error
		switch f[0] {
		case "dir":
			if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
				err = os.Mkdir(at, 0o755)
			}
		case "link":
			err = os.Symlink(f[3], at)
		case "file":
			err = os.WriteFile(at, []byte("of "+f[2]), 0o644)
		}
		uid, bad := strconv.Atoi(f[2])
		if err == nil && bad == nil {
			bad = os.Lchown(at, uid, uid)
		}
		if err == nil && bad == nil && f[0] != "link" {
			mode, parse := strconv.ParseUint(f[3], 8, 32)
			bad = errors.Join(parse, unix.Chmod(at, uint32(mode)))
		}
		if err = errors.Join(err, bad); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// asRoot skips a test that gives files to several users.
func asRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it gives files to other users, which takes root: run the tests as root, as make test does in CI")
	}
}

// pathOf is the machine's path of an open directory.
func pathOf(t testing.TB, root string, d beneath.Dir) string {
	t.Helper()
	to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(d.FD))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join("/", strings.TrimPrefix(to, root))
}

// world is a machine with users 1500 and 1600.
const world = `
dir /etc 0 755
dir /etc/profile.d 0 755
dir /root 0 700
dir /root/.ssh 0 700
dir /run 0 755
dir /tmp 0 1777
dir /open 0 777
dir /team 0 775
dir /var/home 0 755
dir /var/home/app 1500 755
dir /var/home/app/own 1500 755
dir /var/home/app/own/deep 1500 755
dir /var/home/app/given 0 755
dir /var/home/app/given/in 0 755
dir /var/home/bob 1600 755
dir /var/home/bob/shared 1500 777
link /home 0 var/home
link /var/run 0 ../run
link /abs 0 /etc/profile.d
link /up 0 ../../../../etc
link /loop 0 loop
file /etc/passwd 0 644
`

// hostile are links and directories that users add to the world, and what becomes of a path then: "to" is where it
// leads, "at" is the component at which it is refused.
var hostile = []struct {
	says, add, path, to, at string
}{
	{says: "a directory of root", path: "/etc/profile.d", to: "/etc/profile.d"},
	{says: "a relative link of root, as OSTree has it", path: "/home/app/own", to: "/var/home/app/own"},
	{says: "a relative link of root upwards", path: "/var/run", to: "/run"},
	{says: "an absolute link of root", path: "/abs", to: "/etc/profile.d"},
	{says: "no .. leads out of the root", path: "/up/profile.d", to: "/etc/profile.d"},
	{says: "a directory of root in a user's", path: "/home/app/given/in", to: "/var/home/app/given/in"},
	{says: "a user's link within the user's directories", add: "link /var/home/app/l 1500 own", path: "/home/app/l/deep", to: "/var/home/app/own/deep"},
	{says: "a user's absolute link to a directory of the user", add: "link /var/home/app/l 1500 /home/app/own", path: "/home/app/l", to: "/var/home/app/own"},
	{says: "a user's link through links to a directory of the user", add: "link /var/home/app/l 1500 m\nlink /var/home/app/m 1500 own/deep", path: "/home/app/l", to: "/var/home/app/own/deep"},
	{says: "root's link in a user's directory to a directory of the user", add: "link /var/home/app/l 0 own", path: "/home/app/l", to: "/var/home/app/own"},

	{says: "a user's link to a directory of root", add: "link /var/home/app/l 1500 /etc/profile.d", path: "/home/app/l", at: "/var/home/app/l"},
	{says: "a user's link as .ssh to root's", add: "link /var/home/app/.ssh 1500 /root/.ssh", path: "/home/app/.ssh", at: "/var/home/app/.ssh"},
	{says: "a user's link to the root", add: "link /var/home/app/l 1500 /", path: "/home/app/l/etc", at: "/var/home/app/l"},
	{says: "a user's link to another user's directory", add: "link /var/home/app/l 1500 ../bob", path: "/home/app/l", at: "/var/home/app/l"},
	{says: "a user's link to an own directory below another user's", add: "link /var/home/app/l 1500 ../bob/shared", path: "/home/app/l", at: "/var/home/bob/shared"},
	{says: "a user's link to a link to a directory of root", add: "link /var/home/app/l 1500 m\nlink /var/home/app/m 1500 ../../../etc", path: "/home/app/l", at: "/var/home/app/m"},
	{says: "a user's link to a link of root", add: "link /var/home/app/l 1500 /abs", path: "/home/app/l", at: "/var/home/app/l"},
	{says: "a user's link to .. of an own directory", add: "link /var/home/app/own/l 1500 ../..", path: "/home/app/own/l", at: "/var/home/app/own/l"},
	{says: ".. after a link leads above what the link leads to", add: "link /var/home/app/l 1500 own/deep/../../../bob", path: "/home/app/l", at: "/var/home/app/l"},
	{says: "a user's link to root's directory in an own one", add: "link /var/home/app/l 1500 given", path: "/home/app/l/in", at: "/var/home/app/l"},
	{says: "root's link in a user's directory to root's", add: "link /var/home/app/l 0 /etc", path: "/home/app/l", at: "/var/home/app/l"},
	{says: "root's link in root's directory in a user's", add: "link /var/home/app/given/l 0 /etc", path: "/home/app/given/l", at: "/var/home/app/given/l"},
	{says: "another user's link in a user's directory", add: "link /var/home/app/l 1600 /home/app/own", path: "/home/app/l", at: "/var/home/app/l"},
	{says: "another user's directory in a user's", add: "dir /var/home/app/d 1600 755", path: "/home/app/d", at: "/var/home/app/d"},

	{says: "root's link through a user's directory and out of it", add: "link /l 0 var/home/app/own/../../../etc", path: "/l", at: "/var/home/app"},
	{says: "a user's directory in /tmp", add: "dir /tmp/d 1500 755", path: "/tmp/d", to: "/tmp/d"},
	{says: "root's link in a sticky directory", add: "link /tmp/l 0 /etc", path: "/tmp/l", to: "/etc"},
	{says: "a user's link in /tmp", add: "link /tmp/l 1500 ../etc", path: "/tmp/l", at: "/tmp/l"},
	{says: "a user's link in a directory of all", add: "link /open/l 1500 ../etc", path: "/open/l", at: "/open/l"},
	{says: "root's link in a directory in which all can rename", add: "link /open/l 0 ../etc", path: "/open/l", at: "/open/l"},
	{says: "root's link in a directory in which a group can rename", add: "link /team/l 0 ../etc", path: "/team/l", at: "/team/l"},
	{says: "root's directory in a directory in which a group can rename", add: "dir /team/d 0 755\ndir /team/d/e 0 755", path: "/team/d/e", to: "/team/d/e"},
}

func TestWhereHostilePathsLead(t *testing.T) {
	asRoot(t)
	for _, kernel := range []string{"openat2", "no openat2"} {
		for _, c := range hostile {
			t.Run(kernel+"/"+c.says, func(t *testing.T) {
				root := t.TempDir()
				layout(t, root, world+c.add)
				if err := unix.Chown(filepath.Join(root, "team"), 0, 1700); err != nil {
					t.Fatal(err)
				}
				tree := open(t, root, kernel)
				for range 2 { // the second time the tree may know the directory
					if got := leads(t, tree, root, c.path); got != c.to+c.at {
						t.Errorf("%s is %q, want %q", c.path, got, c.to+c.at)
					}
				}
			})
		}
	}
}

func open(t testing.TB, root, kernel string) *beneath.Tree {
	t.Helper()
	tree, err := beneath.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() }) // again, where the test closed it
	if kernel != "openat2" {
		tree.WithoutOpenat2()
	}
	return tree
}

// leads is where a path leads, the component at which it is refused, or an error's text.
func leads(t testing.TB, tree *beneath.Tree, root, p string) string {
	t.Helper()
	d, err := tree.Dir(p)
	var unsafe *host.UnsafePathError
	switch {
	case errors.As(err, &unsafe):
		if unsafe.Path != p || unsafe.Why == "" || unsafe.Fix == "" || !strings.Contains(unsafe.Why, unsafe.Component) {
			t.Errorf("%s is refused without its reasons: %+v", p, unsafe)
		}
		return unsafe.Component
	case err != nil:
		return err.Error()
	}
	defer d.Close()
	return pathOf(t, root, d)
}

func TestWhatIsNotThereIsNoUnsafePath(t *testing.T) {
	asRoot(t)
	root := t.TempDir()
	layout(t, root, world+"link /var/home/app/l 1500 /nothing/there\nfile /var/home/app/f 1500 644")
	for _, kernel := range []string{"openat2", "no openat2"} {
		tree := open(t, root, kernel)
		for p, want := range map[string]error{
			"/etc/none": fs.ErrNotExist, "/none/x": fs.ErrNotExist, "/home/app/l": fs.ErrNotExist,
			"/home/app/own/x": fs.ErrNotExist,
			"/etc/passwd":     unix.ENOTDIR, "/etc/passwd/x": unix.ENOTDIR, "/home/app/f/x": unix.ENOTDIR,
			"/loop": fs.ErrNotExist,
		} {
			if _, err := tree.Dir(p); !errors.Is(err, want) {
				t.Errorf("%s, %s: %v, want %v", kernel, p, err, want)
			}
		}
		for _, p := range []string{"", "etc", "/etc/", "/etc/../etc", "/etc\x00"} {
			if _, err := tree.Dir(p); err == nil {
				t.Errorf("%q was opened", p)
			}
		}
	}
}

func TestTheRefusalNamesOwnersAndHelp(t *testing.T) {
	asRoot(t)
	root := t.TempDir()
	layout(t, root, world+"link /var/home/app/l 1500 /etc/profile.d")
	_, err := open(t, root, "openat2").Dir("/home/app/l")
	const want = "unsafe path /home/app/l: the link /var/home/app/l is controlled by uid 1500 and leads to " +
		"/etc/profile.d, which belongs to uid 0; remove the link, or name the path that it stands for"
	if fmt.Sprint(err) != want {
		t.Errorf("it says %q, want %q", err, want)
	}
}

func TestAMountBelowAUsersDirectoryIsTheUsersOrRefused(t *testing.T) {
	asRoot(t)
	root := t.TempDir()
	layout(t, root, world)
	at := filepath.Join(root, "var/home/app/given")
	if err := unix.Mount(filepath.Join(root, "etc"), at, "", unix.MS_BIND, ""); errors.Is(err, unix.EPERM) {
		t.Skipf("this sandbox mounts nothing: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	tree := open(t, root, "openat2")
	if got := leads(t, tree, root, "/home/app/given/profile.d"); got != "/var/home/app/given" {
		t.Errorf("a mount of /etc is %q", got)
	}
}

func TestLinksOfProcAreNotFollowed(t *testing.T) {
	tree, err := beneath.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close() //nolint:errcheck // only read
	for _, p := range []string{
		"/proc/self", "/proc/self/root/etc", fmt.Sprintf("/proc/%d/root/etc", os.Getpid()),
		fmt.Sprintf("/proc/%d/cwd", os.Getpid()),
	} {
		if _, err := tree.Dir(p); !errors.As(err, new(*host.UnsafePathError)) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if d, err := tree.Dir("/proc/sys/kernel"); err != nil {
		t.Errorf("what is no link of /proc is opened: %v", err)
	} else {
		d.Close()
	}
}

func TestAUsersOwnSimulatedHostIsTrusted(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"etc", "home/app"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o775); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(root, "home/app/l")); err != nil {
		t.Fatal(err)
	}
	if got := leads(t, open(t, root, "openat2"), root, "/home/app/l"); got != "/etc" {
		t.Errorf("it leads to %q", got)
	}
}

// TestADirectoryIsExchangedBetweenTwoSteps has the user exchange a directory for a link after each component of its
// path was opened.
func TestADirectoryIsExchangedBetweenTwoSteps(t *testing.T) {
	asRoot(t)
	for _, kernel := range []string{"openat2", "no openat2"} {
		for _, when := range []string{
			"/", "/home", "/var", "/var/home", "/var/home/app", "/var/home/app/own",
			"/var/home/app/own/deep",
		} {
			t.Run(kernel+" after "+when, func(t *testing.T) {
				root := t.TempDir()
				layout(t, root, world+"dir /etc/deep 0 755\nlink /var/home/app/evil 1500 /etc")
				tree := open(t, root, kernel)
				var held unix.Stat_t
				if err := unix.Stat(filepath.Join(root, "var/home/app/own/deep"), &held); err != nil {
					t.Fatal(err)
				}
				tree.Between(func(at string) {
					if at == when {
						evil, own := filepath.Join(root, "var/home/app/evil"), filepath.Join(root, "var/home/app/own")
						if err := unix.Renameat2(unix.AT_FDCWD, evil, unix.AT_FDCWD, own,
							unix.RENAME_EXCHANGE); err != nil {
							t.Fatal(err)
						}
					}
				})
				d, err := tree.Dir("/home/app/own/deep")
				if errors.As(err, new(*host.UnsafePathError)) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				var is unix.Stat_t
				if err := unix.Fstat(d.FD, &is); err != nil || is.Ino != held.Ino || d.Holder != 1500 {
					t.Errorf("it opened %v of %d, %v; want %v", is.Ino, d.Holder, err, held.Ino)
				}
			})
		}
	}
}
