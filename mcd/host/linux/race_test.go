package linux_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/linux"
)

const (
	// rounds is how often the daemon makes its changes in the race.
	rounds = 10000
	// racerHome has the directory in which the racer exchanges things, in the environment of its process.
	racerHome = "BUNSEN_RACER_HOME"
	racerUID  = 1500
)

// TestTheRacer is the process of the user in TestAUserRacesTheDaemon: it exchanges directories for links as fast as it can.
func TestTheRacer(t *testing.T) {
	home := os.Getenv(racerHome)
	if home == "" {
		t.Skip("it is a part of TestAUserRacesTheDaemon")
	}
	if os.Geteuid() != racerUID {
		t.Fatalf("it runs as uid %d", os.Geteuid())
	}
	for name, target := range map[string]string{"evil": "../../etc/profile.d", "evil2": "/root/.ssh", "evil3": "../.."} {
		if err := os.Symlink(target, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"conf", ".ssh"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("racing")
	for i := 0; ; i++ {
		for _, pair := range [][2]string{{"conf", "evil"}, {".ssh", "evil2"}, {"conf", "evil3"}, {".ssh", "conf"}} {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(home, pair[0]), unix.AT_FDCWD, filepath.Join(home, pair[1]), unix.RENAME_EXCHANGE) // what fails is tried again
			if i%2 == 0 {
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(home, pair[0]), unix.AT_FDCWD, filepath.Join(home, pair[1]), unix.RENAME_EXCHANGE)
			}
		}
	}
}

// startRacer starts the process of the user and returns when it races.
func startRacer(t *testing.T, home string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestTheRacer$") // the directory of the test's binary may be root's alone
	cmd.Env = append(os.Environ(), racerHome+"="+home)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: racerUID, Gid: racerUID}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the racer says %q and ends: %v", line, err)
	}
}

// TestAUserRacesTheDaemon has a user exchange directories for links while the daemon writes below the user's home. The user may
// make the daemon's writes fail, and gets nothing else.
func TestAUserRacesTheDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it runs a process of another user, which takes root: run the tests as root, as make test does in CI")
	}
	top := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755)); err != nil {
		t.Fatal(err)
	}
	for p, mode := range map[string]os.FileMode{"etc/profile.d": 0o755, "root/.ssh": 0o700, "home/app": 0o755} {
		if err := errors.Join(os.MkdirAll(filepath.Join(top, p), 0o755), os.Chmod(filepath.Join(top, p), mode)); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(top, "home/app")
	if err := os.Chown(home, racerUID, racerUID); err != nil {
		t.Fatal(err)
	}
	startRacer(t, home)
	root, err := linux.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // only written to
	root.Batch()
	var done, refused int
	app := host.Owner{UID: racerUID, GID: racerUID}
	for round := range rounds {
		for _, do := range []func() error{
			func() error {
				return root.Write("/home/app/conf/app.sh", host.Entry{Mode: 0o644, Owner: app}, []byte("text"))
			},
			func() error { return root.Mkdir("/home/app/.ssh/keys.d", host.Entry{Mode: 0o700, Owner: app}) },
			func() error {
				return root.Write("/home/app/.ssh/keys.d/key", host.Entry{Mode: 0o600, Owner: app}, []byte("key"))
			},
			func() error { return root.Remove("/home/app/.ssh/keys.d/key") },
		} {
			err := do()
			switch {
			case err == nil:
				done++
			case errors.As(err, new(*host.UnsafePathError)):
				refused++
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrExist), errors.Is(err, unix.EISDIR):
			default:
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if bad := escaped(top); bad != nil {
			t.Fatalf("the user won in round %d: %v", round, bad)
		}
	}
	t.Logf("%d changes were made, %d were refused", done, refused)
	if done < rounds/100 || refused < rounds/100 {
		t.Errorf("of %d changes, %d were made and %d refused: they hardly race", 4*rounds, done, refused)
	}
}

// escaped tells what of the daemon's work is where only root may put something.
func escaped(top string) error {
	for _, dir := range []string{"etc/profile.d", "root/.ssh"} {
		names, err := os.ReadDir(filepath.Join(top, dir))
		if err != nil || len(names) > 0 {
			return fmt.Errorf("%s has %v in it, %w", dir, names, err)
		}
	}
	for _, p := range []string{"app.sh", "keys.d", "home/app.sh", "home/keys.d"} {
		if _, err := os.Lstat(filepath.Join(top, p)); err == nil {
			return fmt.Errorf("%s is there", p)
		}
	}
	for _, p := range []string{"", "etc", "etc/profile.d", "root", "root/.ssh", "home"} {
		var is unix.Stat_t
		if err := unix.Lstat(filepath.Join(top, p), &is); err != nil || is.Uid != 0 {
			return fmt.Errorf("%s belongs to uid %d, %w", p, is.Uid, err)
		}
	}
	return nil
}
