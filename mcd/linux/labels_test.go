package linux

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"golang.org/x/sys/unix"
)

// restorecon is the path of the program below the root of a machine. TestMain plays it: it records its arguments.
const restorecon = "usr/sbin/restorecon"

func TestMain(m *testing.M) {
	if os.Args[0] != "/"+restorecon {
		os.Exit(m.Run())
	}
	text, _ := os.ReadFile("/calls")
	text = append(text, strings.Join(os.Args[1:], " ")+"\n"...)
	if err := os.WriteFile("/calls", text, 0o600); err != nil || os.Getenv("PATH") == "" {
		os.Exit(1)
	}
	os.Exit(0)
}

// skip skips a test that this machine cannot run. CI runs all of them.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// itself returns this program, which runs in the root of any machine.
func itself(t *testing.T) []byte {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "it enters the machine's root, which takes root: run the tests as root, as make test does in CI")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if program.Section(".interp") != nil {
		skip(t, "this program needs libraries, which the machine does not have: set CGO_ENABLED=0")
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestNewPathsGetTheLabelsOfThePolicy: the machine's own program labels what is new at its path, and nothing that
// replaces a file or comes back. Without a policy, nothing runs.
func TestNewPathsGetTheLabelsOfThePolicy(t *testing.T) {
	program := itself(t)
	file, text := host.Entry{Kind: host.File, Mode: 0o644}, []byte("x")
	dir := host.Entry{Kind: host.Dir, Mode: 0o755}
	makes := func(r *files.Root) error { return r.Mkdir("/etc/d", dir) }
	for sentence, c := range map[string]struct {
		without string // a file that the machine does not have
		do      func(r *files.Root) error
		want    string
	}{
		"a file": {do: func(r *files.Root) error { return r.Write("/etc/new", file, text) }, want: "-i /etc/new"},
		"an empty file": {
			do: func(r *files.Root) error { return r.Write("/etc/new", file, nil) }, want: "-i /etc/new",
		},
		"a file of another owner": {
			do: func(r *files.Root) error {
				return r.Write("/etc/new", host.Entry{Kind: host.File, Mode: 0o600, Owner: host.Owner{UID: 7}}, text)
			}, want: "-i /etc/new",
		},
		"a directory and a file in it": {
			do: func(r *files.Root) error {
				if err := r.Mkdir("/etc/d", dir); err != nil {
					return err
				}
				return r.Write("/etc/d/new", file, text)
			}, want: "-i /etc/d /etc/d/new",
		},
		"a link": {
			do:   func(r *files.Root) error { return r.Link("/etc/l", host.Entry{Kind: host.Link, Target: "x"}) },
			want: "-i /etc/l",
		},
		"a second name has the label of the first": {
			do: func(r *files.Root) error { return r.Link("/etc/h", host.Entry{Kind: host.Hard, Target: "/etc/was"}) },
		},
		"a file with a label is replaced":      {do: func(r *files.Root) error { return r.Write("/etc/was", file, text) }},
		"a directory that is there":            {do: func(r *files.Root) error { return r.Mkdir("/etc", dir) }},
		"a machine without a policy":           {without: policyLoaded, do: makes},
		"a machine without the program":        {without: "/" + restorecon, do: makes},
		"a file that is gone before the label": {do: func(r *files.Root) error { return r.Remove("/etc/was") }},
	} {
		for _, batch := range []bool{false, true} {
			t.Run(sentence, func(t *testing.T) {
				at := t.TempDir()
				has := map[string][]byte{restorecon: program, policyLoaded: []byte("1"), "etc/was": text}
				for p, contents := range has {
					if "/"+strings.TrimPrefix(p, "/") == c.without {
						continue
					}
					if err := os.MkdirAll(filepath.Dir(filepath.Join(at, p)), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(at, p), contents, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				labelled := []byte("system_u:object_r:etc_t:s0")
				if err := unix.Setxattr(filepath.Join(at, "etc/was"), "security.selinux", labelled, 0); err != nil {
					t.Fatal(err)
				}
				root, err := files.Open(at)
				if err != nil {
					t.Fatal(err)
				}
				defer root.Close()
				if batch {
					root.Batch()
				}
				if err := c.do(root); err != nil {
					t.Fatal(err)
				}
				l := labeller{root, at}
				if err := l.relabel(t.Context()); err != nil {
					t.Fatal(err)
				}
				calls, _ := os.ReadFile(filepath.Join(at, "calls"))
				if got := strings.TrimSpace(string(calls)); got != c.want {
					t.Errorf("it runs restorecon %q, want %q", got, c.want)
				}
				if left := root.Inherited(); len(left) > 0 {
					t.Errorf("the next call would do %v again", left)
				}
			})
		}
	}
}

// TestManyNewPaths needs several calls of the program, because a call has limits.
func TestManyNewPaths(t *testing.T) {
	program, at := itself(t), t.TempDir()
	root, err := files.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, p := range []string{filepath.Dir(restorecon), filepath.Dir(policyLoaded)} {
		if err := os.MkdirAll(filepath.Join(at, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(at, restorecon), program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, policyLoaded), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	root.Batch()
	var want []string
	for i := range 1500 {
		p := fmt.Sprintf("/%s%04d", strings.Repeat("n", 100), i)
		want = append(want, p)
		if err := root.Mkdir(p, host.Entry{Kind: host.Dir, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := (labeller{root, at}).relabel(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls, err := os.ReadFile(filepath.Join(at, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	lines := strings.Split(strings.TrimSpace(string(calls)), "\n")
	for _, line := range lines {
		got = append(got, strings.Fields(strings.TrimPrefix(line, "-i "))...)
	}
	slices.Sort(want)
	if len(lines) < 3 || !slices.Equal(got, want) {
		t.Errorf("%d calls label %d paths of %d", len(lines), len(got), len(want))
	}
}
