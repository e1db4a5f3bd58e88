package linux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// rooted is a machine in a directory, with the base that the suite expects.
func rooted(t *testing.T) (*files.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for p, text := range hosttest.Base {
		at := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := files.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

// needsTools skips what only root can do, and fails where root lacks the tools for it.
func needsTools(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("useradd --root needs to be root")
	}
	for _, tool := range []string{"useradd", "usermod", "userdel", "groupadd", "groupmod", "groupdel", "chpasswd"} {
		if _, err := exec.LookPath("/usr/sbin/" + tool); err != nil {
			t.Fatalf("%v: install the package passwd (Debian, Ubuntu) or shadow-utils (Fedora)", err)
		}
	}
}

func TestTheRealToolsConform(t *testing.T) {
	needsTools(t)
	hosttest.AccountConformance(t, func(t *testing.T) host.Host {
		root, dir := rooted(t)
		return host.Host{Files: root, Passwd: NewShadowUtils(root, dir)}
	})
}

func TestWhatTheToolsAreTold(t *testing.T) {
	alice := host.User{
		There: true, UID: 1500, GID: 1500, Gecos: "Alice", Home: "/home/alice", Shell: "/bin/bash",
		Groups: "wheel", Password: host.DigestOf([]byte("$6$a")),
	}
	guest := host.User{
		There: true, UID: 1200, GID: 1200, Gecos: "A guest", Home: "/home/guest", Shell: "/bin/sh",
		Groups: "wheel", Password: host.DigestOf([]byte("$6$guest")),
	}
	for sentence, c := range map[string]struct {
		do   func(host.Passwd) error
		want []string
	}{
		"a new user is made without a home, and its hash is no argument": {
			func(p host.Passwd) error { return p.SetUser(t.Context(), "alice", alice, []byte("$6$a")) },
			[]string{
				"useradd --no-create-home --no-log-init --no-user-group --uid 1500 --gid 1500 --comment Alice " +
					"--home-dir /home/alice --shell /bin/bash --groups wheel -- alice",
				"chpasswd --encrypted < alice:$6$a",
			},
		},
		"only what differs is changed": {
			func(p host.Passwd) error {
				u := guest
				u.Shell, u.Groups = "/bin/zsh", ""
				return p.SetUser(t.Context(), "guest", u, []byte("$6$guest"))
			},
			[]string{"usermod --shell /bin/zsh --groups  -- guest"},
		},
		"a password alone": {
			func(p host.Passwd) error {
				u := guest
				u.Password = host.DigestOf([]byte("*"))
				return p.SetUser(t.Context(), "guest", u, []byte("*"))
			},
			[]string{"chpasswd --encrypted < guest:*"},
		},
		"nothing is done where nothing differs": {
			func(p host.Passwd) error { return p.SetUser(t.Context(), "guest", guest, []byte("$6$guest")) }, nil,
		},
		"a user is removed even when logged in": {
			func(p host.Passwd) error { return p.SetUser(t.Context(), "guest", host.User{}, nil) },
			[]string{"userdel --force -- guest"},
		},
		"a group is made with its members": {
			func(p host.Passwd) error {
				return p.SetGroup(t.Context(), "team", host.Group{There: true, GID: 7, Members: "core,guest"})
			},
			[]string{
				"groupadd --gid 7 -- team", "usermod --append --groups team -- core",
				"usermod --append --groups team -- guest",
			},
		},
		"a group is removed": {
			func(p host.Passwd) error {
				return p.SetGroup(t.Context(), "wheel", host.Group{})
			}, []string{"groupdel -- wheel"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			root, dir := rooted(t)
			s := NewShadowUtils(root, dir)
			var told []string
			s.run = func(_ context.Context, stdin, tool string, args ...string) error {
				line := strings.Join(append([]string{tool}, args...), " ")
				if stdin != "" {
					line += " < " + strings.TrimSpace(stdin)
				}
				told = append(told, line)
				return nil
			}
			if err := c.do(s); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAToolThatIsMissingOrFailsIsToldWithoutSecrets(t *testing.T) {
	err := runTool(t.Context(), "/", "alice:$6$secret\n", "no-such-tool", nil)
	if !errors.Is(err, host.ErrUnsupported) || strings.Contains(err.Error(), "$6$") {
		t.Error(err)
	}
}

func TestAUserOfWhomHalfWasDoneIsFinishedOrTakenBack(t *testing.T) {
	needsTools(t)
	want := host.User{
		There: true, UID: 1500, GID: 10, Home: "/home/alice", Shell: "/bin/sh", Groups: "core",
		Password: host.DigestOf([]byte("$6$a")),
	}
	for _, end := range []host.User{want, {}} {
		root, dir := rooted(t)
		s := NewShadowUtils(root, dir)
		real := s.run
		dying := s
		dying.run = func(ctx context.Context, stdin, tool string, args ...string) error {
			if slices.Contains([]string{"chpasswd"}, tool) {
				return hosttest.ErrCrashed
			}
			return real(ctx, stdin, tool, args...)
		}
		if err := dying.SetUser(t.Context(), "alice", want, []byte("$6$a")); !errors.Is(err, hosttest.ErrCrashed) {
			t.Fatal(err)
		}
		hash := []byte(nil)
		if end.There {
			hash = []byte("$6$a")
		}
		if err := s.SetUser(t.Context(), "alice", end, hash); err != nil {
			t.Fatal(err)
		}
		if is, _, err := s.User(t.Context(), "alice"); err != nil || is != end {
			t.Errorf("it is %+v, %v; want %+v", is, err, end)
		}
	}
}
