package unit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/unit"
)

func TestCheck(t *testing.T) {
	for sentence, tc := range map[string]struct{ name, text, want string }{
		"a mistyped directive gets a guess":              {"a.service", "[Service]\nExecStrat=/bin/true\n", "2 unit-directive: systemd ignores ExecStrat= in the section [Service]: did you mean ExecStart=?"},
		"a directive of another section is sent there":   {"a.service", "[Service]\nAfter=b.service\n[Unit]\nWantedBy=c\n", "2 unit-directive: systemd ignores After= in the section [Service]: move it to the section [Unit]\n4 unit-directive: systemd ignores WantedBy= in the section [Unit]: move it to the section [Install]"},
		"a mistyped section gets a guess":                {"a.service", "[Servcie]\nExecStart=/x\n", "1 unit-section: systemd ignores the section [Servcie] of a.service: did you mean [Service]?"},
		"a section of another type is ignored":           {"a.timer", "[Timer]\nOnBootSec=1\n[Service]\nExecStart=/x\n", "3 unit-section: systemd ignores the section [Service] of a.timer: it has [Unit], [Timer] and [Install], and sections of others begin with X-"},
		"names of others are allowed":                    {"a.service", "[X-Container]\nImage=x\n[Service]\nX-Owner=me\nExecStart=/x\n", ""},
		"what stands before a section is ignored":        {"a.service", "Type=oneshot\nUser=a\n[Service]\nExecStart=/x\n", "1 unit-section: systemd ignores what stands before the first section: write [Unit] or [Service] above this line"},
		"a line without = is ignored":                    {"a.service", "[Service]\nExecStart=/x\nRestart always\n", "3 unit-directive: systemd ignores a line without =: write NAME=VALUE, or # in front of a comment"},
		"a mount unit is called as its path":             {"var-lib-my-data.mount", "[Mount]\nWhere=/var/lib/my-data\n", `2 unit-name: systemd refuses var-lib-my-data.mount, because its name is not that of the path in Where=: call the unit var-lib-my\x2ddata.mount`},
		"a swap unit is called as its path":              {"dev-sda1.swap", "[Swap]\nWhat=/dev/sda2\n", "2 unit-name: systemd refuses dev-sda1.swap, because its name is not that of the path in What=: call the unit dev-sda2.swap"},
		"what is swapped may have a label":               {"dev-sda1.swap", "[Swap]\nWhat=LABEL=a\n", ""},
		"a path with a specifier is not known":           {"var-lib-x.mount", "[Mount]\nWhere=/var/lib/%i\n", ""},
		"case counts":                                    {"a.service", "[Service]\nexecstart=/x\n", "2 unit-directive: systemd ignores execstart= in the section [Service]: did you mean ExecStart=?"},
		"a line that goes on is no directive":            {"a.service", "[Service]\nExecStart=/x \\\n  --flag=1 \\\n# Comment=x\n  --other=2\nRestart=always\n", ""},
		"comments are no directives":                     {"a.service", "# [Servcie]\n; Foo=1\n[Service]\n#Foo=1\nExecStart=/x\n", ""},
		"new and obsolete directives are known":          {"a.service", "[Unit]\nStartLimitInterval=1\n[Service]\nRestartSteps=3\nStartLimitBurst=3\nMemoryLimit=1G\nPrivatePIDs=yes\n", ""},
		"a target has no section of its own to speak of": {"a.target", "[Unit]\nDescription=x\nAllowIsolate=yes\n[Install]\nWantedBy=x\n", ""},
		"an instance of a template is of its type":       {"getty@tty1.service", "[Service]\nTTYPath=/dev/%I\n", ""},
	} {
		var got []string
		for _, p := range unit.Check(tc.name, tc.text) {
			got = append(got, fmt.Sprintf("%d %s: %s", p.Line, p.Rule, p.Message))
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestEscapePath compares with the program itself.
func TestEscapePath(t *testing.T) {
	program, err := exec.LookPath("systemd-escape")
	if err != nil {
		t.Fatal("there is no systemd-escape to compare with: run make setup")
	}
	for _, p := range []string{
		"/", "/var/lib/my-data", "/var/lib/my data", "/.hidden/.x", "/a//b/", "/dev/disk/by-label/ü", `/a\b`, "/a:b_c.d~e@f",
	} {
		out, err := exec.CommandContext(t.Context(), program, "--path", p).Output()
		if want := strings.TrimSuffix(string(out), "\n"); err != nil || unit.EscapePath(p) != want {
			t.Errorf("%s: got %s, want %s, %v", p, unit.EscapePath(p), want, err)
		}
	}
}

func TestMisspelled(t *testing.T) {
	for name, want := range map[string]string{
		"chrnoyd.service": "chronyd.service", "chronyd.service": "", "chronyd.socket": "", "kubelet2.service": "",
		"app.service": "", "my-agent.service": "", "dcoker.service": "docker.service", "podman-autoupdate.timer": "podman-auto-update.timer",
		"systemd-resolvd.service": "systemd-resolved.service", "multiuser.target": "multi-user.target",
	} {
		if got := unit.Misspelled(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// The units of a real distribution have no unknown directives, but for those of its own.
func TestTheUnitsOfThisMachineAreClean(t *testing.T) {
	files, _ := filepath.Glob("/usr/lib/systemd/system/*.*")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(text), "[Unit]") {
			continue
		}
		if problems := unit.Check(filepath.Base(f), string(text)); len(problems) > 0 {
			t.Errorf("%s: %v", f, problems)
		}
	}
}

func TestBrokenLine(t *testing.T) {
	for text, want := range map[string]int{
		"[Unit]\nDescription=x\n":         0,
		"[Unit]\nA=1\n\n[Service\nB=1\n":  4,
		"A=1\n[Unit]\n":                   1,
		"[Unit] x\n":                      1,
		"[Unit]\nA=1 \\\nmore\nrubbish\n": 4,
	} {
		if got := unit.BrokenLine(text); got != want {
			t.Errorf("%q: line %d, want %d", text, got, want)
		}
	}
}

func TestPlace(t *testing.T) {
	file := "units:\n  - contents: |\n      [Unit]\n      A=1\n  - contents: \"[Unit]\\nA=1\\n\"\n"
	at := func(line int) origin.Pos { return origin.Pos{File: "f", Line: line, Column: 5} }
	if got, want := unit.Place(strings.Split(file, "\n"), at(2), "[Unit]\nA=1\n", 2),
		(origin.Pos{File: "f", Line: 4, Column: 7}); got != want {
		t.Errorf("a block: %v", got)
	}
	if got := unit.Place(strings.Split(file, "\n"), at(5), "[Unit]\nA=1\n", 2); got != at(5) {
		t.Errorf("a quoted text: %v", got)
	}
	if got, want := unit.Place([]string{"[Unit]", "A=1", ""}, origin.Pos{File: "f", Line: 1}, "[Unit]\nA=1\n", 2),
		(origin.Pos{File: "f", Line: 2, Column: 1}); got != want {
		t.Errorf("a file: %v", got)
	}
}
