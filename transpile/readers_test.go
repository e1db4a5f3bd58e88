package transpile

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// TestRealProgramsReadWhatTheTableSays asks the programs of Debian which files of a directory they read, and compares
// the answer with the files that the table has no warning for.
func TestRealProgramsReadWhatTheTableSays(t *testing.T) {
	catConfig := func(kind string) func(root string) *exec.Cmd {
		return func(root string) *exec.Cmd {
			return exec.Command("systemd-analyze", "--root="+root, "cat-config", kind)
		}
	}
	include := func(line string, command ...string) func(root string) *exec.Cmd {
		return func(root string) *exec.Cmd {
			file := filepath.Join(root, "main")
			text := strings.ReplaceAll(line, "ROOT", root) + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			command := slices.Clone(command)
			for i := range command {
				command[i] = strings.ReplaceAll(command[i], "ROOT", root)
			}
			return exec.Command(command[0], command[1:]...)
		}
	}
	sorted := cmpopts.SortSlices(strings.Compare)
	for _, c := range []struct {
		dir, content string
		names        []string
		modes        []int
		// ask is the command whose output has a line for each file that the program reads. MARK in the content, and in
		// line, is the path of the file.
		ask  func(root string) *exec.Cmd
		line string
	}{
		{
			"/etc/tmpfiles.d", "d MARK\n",
			[]string{"a.conf", "b", "c.conf.bak", "d.cfg", ".e.conf"},
			[]int{0o644},
			func(root string) *exec.Cmd { return exec.Command("systemd-tmpfiles", "--root="+root, "--cat-config") },
			"d MARK",
		},
		{
			"/etc/sysusers.d", "g MARK\n",
			[]string{"a.conf", "b", "c.rule"},
			[]int{0o644},
			func(root string) *exec.Cmd { return exec.Command("systemd-sysusers", "--root="+root, "--cat-config") },
			"g MARK",
		},
		{
			"/etc/systemd/journald.conf.d", "# MARK\n",
			[]string{"a.conf", "b", "c.conf~"},
			[]int{0o644},
			catConfig("systemd/journald.conf"), "# MARK",
		},
		{
			"/etc/systemd/system/app.service.d", "# MARK\n",
			[]string{"a.conf", "b", "c.service"},
			[]int{0o644},
			catConfig("systemd/system/app.service"), "# MARK",
		},
		{
			"/etc/modprobe.d", "blacklist MARK\n",
			[]string{"a.conf", "b", "c.modules"},
			[]int{0o644},
			func(root string) *exec.Cmd {
				return exec.Command("modprobe", "-C", filepath.Join(root, "/etc/modprobe.d"), "--showconfig")
			}, "blacklist MARK",
		},
		{
			"/etc/cron.daily", "#!/bin/sh\n",
			[]string{"a", "b-1", "c_2", "d.sh", "e~", "F"},
			[]int{0o755, 0o700, 0o644, 0o600},
			func(root string) *exec.Cmd {
				return exec.Command("run-parts", "--test", filepath.Join(root, "/etc/cron.daily"))
			}, "ROOT/MARK",
		},
		{
			"/etc/sudoers.d", "Defaults !insults\n",
			[]string{"a", "b.conf", "c~", "d-e", "README"},
			[]int{0o440},
			include("@includedir ROOT/etc/sudoers.d", "visudo", "-c", "-f", "ROOT/main"), "ROOT/MARK: parsed OK",
		},
		{
			"/etc/logrotate.d", "MARK/*.log {\n weekly\n}\n",
			[]string{
				"a", "b.bak", "c.conf", "d.rpmsave", "e~", "f,v",
				"g.disabled", "h.dpkg-old",
			},
			[]int{0o644, 0o600, 0o664, 0o646, 0o755, 0o400},
			include("include ROOT/etc/logrotate.d", "logrotate", "-d", "-s", "ROOT/state", "ROOT/main"),
			"rotating pattern: MARK/*.log  weekly (no old logs will be kept)",
		},
		{
			"/etc/ssh/sshd_config.d", "AcceptEnv MARK\n",
			[]string{"a.conf", "b", "c.config"},
			[]int{0o644},
			include("Include ROOT/etc/ssh/sshd_config.d/*.conf\nHostKey ROOT/key", "sh", "-c",
				"ssh-keygen -q -t ed25519 -N '' -f ROOT/key && mkdir -p /run/sshd && "+
					"$(PATH=$PATH:/usr/sbin command -v sshd) -T -f ROOT/main"), "acceptenv MARK",
		},
	} {
		t.Run(strings.ReplaceAll(strings.Trim(c.dir, "/"), "/", "-"), func(t *testing.T) {
			for _, mode := range c.modes {
				root, want := t.TempDir(), []string{}
				if err := os.MkdirAll(filepath.Join(root, c.dir), 0o755); err != nil {
					t.Fatal(err)
				}
				lines := map[string]string{}
				for _, name := range c.names {
					file := path.Join(c.dir, name)
					text := strings.ReplaceAll(c.content, "MARK", file)
					if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					if err := os.Chmod(filepath.Join(root, file), os.FileMode(mode)); err != nil { //nolint:gosec // the case
						t.Fatal(err)
					}
					line := strings.ReplaceAll(strings.ReplaceAll(c.line, "ROOT/MARK", root+file), "MARK", file)
					lines[line] = name
					source := "data:;base64," + base64.StdEncoding.EncodeToString([]byte(text))
					if len(ignored(ign.File{
						Node: ign.Node{Path: file}, FileEmbedded1: ign.FileEmbedded1{
							Mode: &mode, Contents: ign.Resource{Source: &source},
						},
					})) == 0 && !strings.HasPrefix(name, "README") {
						want = append(want, name)
					}
				}
				out, err := c.ask(root).CombinedOutput()
				read := map[string]bool{}
				for line := range strings.Lines(string(out)) {
					if name := lines[strings.TrimSpace(line)]; name != "" && !strings.HasPrefix(name, "README") {
						read[name] = true
					}
				}
				if d := cmp.Diff(want, slices.AppendSeq([]string{}, maps.Keys(read)), sorted); d != "" {
					t.Errorf("mode %04o: the table (-) and the program (+):\n%s\n%v\n%s", mode, d, err, out)
				}
			}
		})
	}
}

// ignored returns the warnings of the table for a file.
func ignored(f ign.File) []string {
	var config machineconfig.Config
	config.Ignition.Storage.Files = []ign.File{f}
	var out []string
	for _, w := range Lint(fstest.MapFS{}, config, "", origin.Map{}) {
		if strings.HasPrefix(w.Rule, "ignored-") {
			out = append(out, fmt.Sprintf("%s: %s", w.Rule, w.Message))
		}
	}
	return out
}
