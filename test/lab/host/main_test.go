package host_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/test/lab"
)

// insideVariable says what this binary is inside of a host: the suite, or one of the roles.
const insideVariable = "BUNSEN_LAB_INSIDE"

// suite is where a host has this binary.
const suite = "/usr/local/bin/host.test"

// TestMain leaves the tests that change the machine they run on to the inside of a host.
func TestMain(m *testing.M) {
	flag.Parse()
	which := "test.skip"
	switch role := os.Getenv(insideVariable); role {
	case "":
	case "suite":
		which = "test.run"
	default:
		os.Exit(play(role))
	}
	if err := flag.Set(which, "^TestInside"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// inside runs this binary in a role inside of a host, as a unit of its systemd, with more arguments for systemd-run.
func inside(t *testing.T, h *lab.Host, role string, more ...string) (string, error) {
	t.Helper()
	argv := append([]string{
		"systemd-run", "--quiet", "--collect", "--setenv=" + insideVariable + "=" + role,
		"--setenv=PATH=/usr/sbin:/usr/bin:/sbin:/bin",
	}, more...)
	return h.Exec(t.Context(), append(argv, suite, "-test.v")...)
}

// furnished is a host with this binary, and with what the conformance suite expects of a machine.
func furnished(t *testing.T) *lab.Host {
	t.Helper()
	lab.Need(t)
	return lab.Start(t, lab.Options{Name: "suite", Prepare: func(root string) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		if err := copyFile(root+suite, self); err != nil {
			return err
		}
		return furnish(root)
	}})
}

// furnish adds the suite's accounts to those that Debian's own services need, and its files.
func furnish(root string) error {
	for _, name := range []string{".bash_logout", ".profile"} {
		if err := os.Remove(root + "/etc/skel/" + name); err != nil {
			return err
		}
	}
	for at, text := range hosttest.Base {
		mode := os.FileMode(0o644)
		switch at {
		case "/etc/shadow":
			mode = 0o640
			fallthrough
		case "/etc/passwd", "/etc/group":
			its, err := os.ReadFile(root + at)
			if err != nil {
				return err
			}
			text = joined(string(its), text)
		}
		if err := os.MkdirAll(filepath.Dir(root+at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(root+at, []byte(text), mode); err != nil {
			return err
		}
	}
	return os.MkdirAll(root+"/home", 0o755)
}

// joined adds the lines of accounts to those that are there, which give way where they have the name or are group 10.
func joined(its, more string) string {
	var b strings.Builder
	for line := range strings.Lines(its) {
		name, rest, _ := strings.Cut(line, ":")
		if !strings.Contains("\n"+more, "\n"+name+":") && !strings.HasPrefix(rest, "x:10:\n") {
			b.WriteString(line)
		}
	}
	return b.String() + more
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
