package hosttest

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
)

const (
	// rounds is how often the daemon makes its changes in a race test.
	rounds = 10000
	// RacerHome is the environment variable that has the directory for Racer.
	RacerHome = "BUNSEN_RACER_HOME"
	// racerUID is the user of the racer's process.
	racerUID = 1500
)

// Racer is the process of a user who exchanges directories in a home directory for links as fast as possible. Racer
// prints a line when it begins, and runs until it is killed.
func Racer(home string) error {
	if os.Geteuid() != racerUID {
		return fmt.Errorf("the racer runs as uid %d", os.Geteuid())
	}
	for name, target := range map[string]string{"evil": "../../etc/race.d", "evil2": "/root/.ssh", "evil3": "../.."} {
		if err := os.Symlink(target, filepath.Join(home, name)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"conf", ".ssh"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o755); err != nil {
			return err
		}
	}
	fmt.Println("racing")
	for i := 0; ; i++ {
		for _, pair := range [][2]string{{"conf", "evil"}, {".ssh", "evil2"}, {"conf", "evil3"}, {".ssh", "conf"}} {
			for range 1 + i%2 { // Failures are ignored, because the loop retries.
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(home, pair[0]), unix.AT_FDCWD,
					filepath.Join(home, pair[1]), unix.RENAME_EXCHANGE)
			}
		}
	}
}

// startRacer starts a process that calls Racer as the user. startRacer returns as soon as the process exchanges
// directories.
func startRacer(t *testing.T, racer *exec.Cmd, home string) {
	t.Helper()
	racer.Env = append(racer.Environ(), RacerHome+"="+home)
	racer.Dir, racer.Stderr = "/", os.Stderr
	racer.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: racerUID, Gid: racerUID}}
	out, err := racer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := racer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = racer.Process.Kill()
		_ = racer.Wait() // The error is ignored, because the process was killed.
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the racer says %q and ends: %v", line, err)
	}
}

// Race runs a racer while the daemon writes below the home directory of the racer's user. The racer may make the
// daemon's changes fail, and must have no other effect. The parameter top is the mount point of the machine's root. The
// command racer calls the function Racer.
func Race(t *testing.T, top string, open func() host.Files, racer *exec.Cmd) {
	t.Helper()
	for p, mode := range map[string]os.FileMode{"etc/race.d": 0o755, "root/.ssh": 0o700, "home/app": 0o755} {
		if err := errors.Join(os.MkdirAll(filepath.Join(top, p), 0o755),
			os.Chmod(filepath.Join(top, p), mode)); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(top, "home/app")
	if err := os.Chown(home, racerUID, racerUID); err != nil {
		t.Fatal(err)
	}
	startRacer(t, racer, home)
	files := open()
	var done, refused int
	for round := range rounds {
		for _, do := range racedChanges(files) {
			switch err := do(); {
			case err == nil:
				done++
			case errors.As(err, new(*host.UnsafePathError)):
				refused++
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrExist),
				errors.Is(err, unix.EISDIR), errors.Is(err, host.ErrNotEmpty):
			default:
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if bad := escaped(top); bad != nil {
			t.Fatalf("the user won in round %d: %v", round, bad)
		}
	}
	t.Logf("the daemon made %d changes and refused %d", done, refused)
	if done < rounds/100 || refused < rounds/100 {
		t.Errorf("of %d changes, the daemon made %d and refused %d: user and daemon hardly race", 4*rounds, done,
			refused)
	}
}

// racedChanges returns the changes that the daemon makes in each round.
func racedChanges(files host.Files) []func() error {
	app := host.Owner{UID: racerUID, GID: racerUID}
	return []func() error{
		func() error {
			return files.Write("/home/app/conf/app.sh", host.Entry{Mode: 0o644, Owner: app}, []byte("text"))
		},
		func() error { return files.Mkdir("/home/app/.ssh/keys.d", host.Entry{Mode: 0o700, Owner: app}) },
		func() error {
			return files.Write("/home/app/.ssh/keys.d/key", host.Entry{Mode: 0o600, Owner: app}, []byte("key"))
		},
		func() error { return files.Remove("/home/app/.ssh/keys.d/key") },
	}
}

// escaped returns an error if the daemon wrote to a directory that only root may change.
func escaped(top string) error {
	for _, dir := range []string{"etc/race.d", "root/.ssh"} {
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
	for _, p := range []string{"", "etc", "etc/race.d", "root", "root/.ssh", "home"} {
		var is unix.Stat_t
		if err := unix.Lstat(filepath.Join(top, p), &is); err != nil || is.Uid != 0 {
			return fmt.Errorf("%s belongs to uid %d, %w", p, is.Uid, err)
		}
	}
	return nil
}
