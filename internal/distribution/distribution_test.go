package distribution_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/distribution"
)

func read(t *testing.T, at string) string {
	t.Helper()
	text, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheFirstBootComesBeforeEveryKubelet: the kubelet of an unlisted unit would join with another OS than the
// config's.
func TestTheFirstBootComesBeforeEveryKubelet(t *testing.T) {
	unit := read(t, "../../config/daemon/systemd/machine-config-daemon-firstboot.service")
	all := strings.Join(distribution.KubeletUnits(), " ")
	for _, directive := range []string{"Before=", "RequiredBy="} {
		if !strings.Contains(unit, "\n"+directive+all+"\n") {
			t.Errorf("the unit has no line %s%s", directive, all)
		}
	}
}

// TestTheDocsShowTheTable: what the table has, docs/distributions.md shows.
func TestTheDocsShowTheTable(t *testing.T) {
	rows := map[string]string{}
	for line := range strings.Lines(read(t, "../../docs/distributions.md")) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok {
			rows[name] += line
		}
	}
	for _, k := range distribution.Distributions() {
		want := slices.Concat(k.Units, k.Kubeconfigs)
		for _, live := range k.Live {
			want = append(want, live.Path)
		}
		for _, w := range want {
			if !strings.Contains(rows[k.Name], "`"+w+"`") {
				t.Errorf("the row of %s does not name %s: %q", k.Name, w, rows[k.Name])
			}
		}
	}
	for _, s := range distribution.Systems() {
		for _, w := range slices.Concat([]string{s.BinaryPath, s.KernelArguments.Name}, s.Updater) {
			if !strings.Contains(rows[s.Name], "`"+w+"`") {
				t.Errorf("the row of %s does not name %s: %q", s.Name, w, rows[s.Name])
			}
		}
		file := distribution.KeysFile
		if s.KeysReader != "" {
			file = distribution.KeysFragment + "` | `" + s.KeysReader
		}
		if !strings.Contains(rows[s.Name], "`"+file+"`") {
			t.Errorf("the row of %s does not say that SSH keys are in `%s`", s.Name, file)
		}
		by := "by you: `"
		if s.KernelArguments.Method != "" {
			by = "by the daemon: `"
		}
		if want := by + s.KernelArguments.Name + "`"; !strings.Contains(rows[s.Name], want) {
			t.Errorf("the row of %s does not say %s", s.Name, want)
		}
		if s.RebootRequired != "" && !strings.Contains(rows[s.Name], "`"+s.RebootRequired+"`") {
			t.Errorf("the row of %s does not name %s", s.Name, s.RebootRequired)
		}
	}
}

func TestWhichUnitANodeHasInsteadOfAnother(t *testing.T) {
	for unit, want := range map[string]string{
		"k3s.service":        "k3s-agent.service",
		"rke2-agent.service": "rke2-server.service", "kubelet.service": "", "crio.service": "",
	} {
		if got := strings.Join(distribution.OtherUnits(unit), " "); got != want {
			t.Errorf("instead of %s: %q, want %q", unit, got, want)
		}
	}
}

func TestTheRowOfAMachine(t *testing.T) {
	for id, want := range map[[2]string]string{
		{"fedora", "coreos"}: "Fedora CoreOS", {"fedora", "server"}: "RHEL, Fedora, CentOS Stream",
		{"ubuntu", ""}: "Debian, Ubuntu", {"flatcar", ""}: "Flatcar", {"arch", ""}: "", {"", ""}: "",
	} {
		if got, known := distribution.SystemOf(id[0], id[1]); got.Name != want || known != (want != "") {
			t.Errorf("%q is %q, want %q", id, got.Name, want)
		}
	}
}

// TestEachReleaseHasItsSystem: a release with a variant is not that of the same system without it.
func TestEachReleaseHasItsSystem(t *testing.T) {
	for release, want := range map[[2]string]string{
		{"fedora", "coreos"}:  "Fedora CoreOS",
		{"fedora", "server"}:  "RHEL, Fedora, CentOS Stream",
		{"rhcos", "coreos"}:   "RHEL CoreOS, CentOS Stream CoreOS",
		{"scos", ""}:          "RHEL CoreOS, CentOS Stream CoreOS",
		{"rhel", "coreos"}:    "RHEL CoreOS, CentOS Stream CoreOS", // since OpenShift 4.19
		{"centos", "coreos"}:  "RHEL CoreOS, CentOS Stream CoreOS",
		{"rhel", ""}:          "RHEL, Fedora, CentOS Stream",
		{"centos", "stream"}:  "RHEL, Fedora, CentOS Stream",
		{"debian", "coreos"}:  "Debian, Ubuntu",
		{"sl-micro", "micro"}: "openSUSE MicroOS, SLE Micro",
		{"arch", ""}:          "",
	} {
		system, known := distribution.SystemOf(release[0], release[1])
		if system.Name != want || known != (want != "") {
			t.Errorf("%q: %q, want %q", release, system.Name, want)
		}
	}
}
