package review_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/review/report"
)

const (
	markedDoc = "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/app/settings\n      contents:\n" +
		"        inline: "
	markedPool = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfigPool\nmetadata:\n" +
		"  name: worker\n  annotations:\n    review.bunsen.dev/secret-paths: /etc/app/\nspec:\n" +
		"  machineConfigSelector:\n    matchLabels: {machineconfiguration.openshift.io/role: worker}\n" +
		"  nodeSelector:\n    matchLabels: {node-role.kubernetes.io/worker: \"\"}\n"
	markedMC = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n" +
		"  name: 20-worker-b\n  labels: {machineconfiguration.openshift.io/role: worker}\n" +
		"  annotations: {review.bunsen.dev/secret-paths: /etc/app/}\nspec: {kernelArguments: [quiet]}\n"
	markedAll = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata:\n  name: cluster\n" +
		"  annotations:\n    review.bunsen.dev/secret-paths: /etc/*/settings\nspec: {}\n"
)

// TestOnlyMarksOfTheBaseHide checks that a mark of base hides contents on both sides, that a mark of head alone hides
// nothing, and that the review tells about such a mark.
func TestOnlyMarksOfTheBaseHide(t *testing.T) {
	for sentence, c := range map[string]struct {
		files  map[string]string
		hidden bool
		// told is the mark that hides nothing.
		told string
	}{
		"no mark":                                   {nil, false, ""},
		"a mark on the pool, on both sides":         {map[string]string{"base/cluster/a.yaml": markedPool, "head/cluster/a.yaml": markedPool}, true, ""},
		"a mark on the pool that the change adds":   {map[string]string{"head/cluster/a.yaml": markedPool}, false, "/etc/app/"},
		"a mark that the change removes":            {map[string]string{"base/cluster/a.yaml": markedPool}, true, ""},
		"a mark for all pools, on both sides":       {map[string]string{"base/cluster/a.yaml": markedAll, "head/cluster/a.yaml": markedAll}, true, ""},
		"a mark for all pools that the change adds": {map[string]string{"head/cluster/a.yaml": markedAll}, false, "/etc/*/settings"},
		"a mark on a document, on both sides":       {map[string]string{"base/pools/worker/b.yaml": markedMC, "head/pools/worker/b.yaml": markedMC}, true, ""},
		"a mark on a document that goes":            {map[string]string{"base/pools/worker/b.yaml": markedMC}, true, ""},
		"a mark on a document that comes":           {map[string]string{"head/pools/worker/b.yaml": markedMC}, false, "/etc/app/"},
		"a mark of another form that head adds":     {map[string]string{"base/cluster/a.yaml": markedPool, "head/cluster/a.yaml": markedAll}, true, "/etc/*/settings"},
	} {
		t.Run(sentence, func(t *testing.T) {
			a := &txtar.Archive{Files: []txtar.File{
				{Name: "base/pools/worker/10-a.bu", Data: []byte(markedDoc + "hunter1\n")},
				{Name: "head/pools/worker/10-a.bu", Data: []byte(markedDoc + "hunter2\n")},
			}}
			for name, text := range c.files {
				a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
			}
			got := compared(t, a)
			for _, text := range printed(t, got) {
				if strings.Contains(text, "hunter") == c.hidden {
					t.Errorf("hidden should be %v:\n%s", c.hidden, text)
				}
				if c.told != "" && !strings.Contains(text, "hide nothing") && !strings.Contains(text, "newMarks") {
					t.Errorf("does not tell about the mark:\n%s", text)
				}
				if c.told != "" && !strings.Contains(text, "annotations") && c.files["head/pools/worker/b.yaml"] == "" {
					t.Errorf("does not list the mark among the changes of cluster/:\n%s", text)
				}
			}
			if marks := got.Pools[0].NewMarks; c.told == "" && len(marks) > 0 || c.told != "" &&
				!slices.Equal(marks, []string{c.told}) {
				t.Errorf("newMarks: %q, want %q", marks, c.told)
			}
		})
	}
}

// TestMarksOfTheBaseHideInNewPools checks that marks of base for all pools hide contents of a pool that head adds, and
// that marks of head alone do not.
func TestMarksOfTheBaseHideInNewPools(t *testing.T) {
	for sentence, c := range map[string]struct {
		side   string
		hidden bool
	}{
		"base has the mark":  {"base/cluster/a.yaml", true},
		"head adds the mark": {"head/cluster/a.yaml", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := compared(t, &txtar.Archive{Files: []txtar.File{
				{Name: "base/pools/worker/10-a.bu", Data: []byte(markedDoc + "same\n")},
				{Name: "head/pools/worker/10-a.bu", Data: []byte(markedDoc + "same\n")},
				{Name: "head/pools/gpu/10-a.bu", Data: []byte(markedDoc + "hunter2\n")},
				{Name: c.side, Data: []byte(markedAll)},
			}})
			for _, text := range printed(t, got) {
				if strings.Contains(text, "hunter") == c.hidden {
					t.Errorf("hidden should be %v:\n%s", c.hidden, text)
				}
			}
		})
	}
}

// TestEveryChangeOfMarksIsTold also where nothing else changes.
func TestEveryChangeOfMarksIsTold(t *testing.T) {
	for file, marks := range map[string]string{"cluster/a.yaml": markedPool, "pools/worker/b.yaml": markedMC} {
		without := strings.Replace(strings.Replace(marks, "    review.bunsen.dev/secret-paths: /etc/app/\n",
			"    other: x\n", 1), "{review.bunsen.dev/secret-paths: /etc/app/}", "{}", 1)
		for _, c := range []struct{ base, head, want string }{
			{without, marks, "! this change itself marks secrets, and the marks hide nothing here; in worker at /etc/app/"},
			{marks, without, "! this change removes marks of secrets, so that later reviews show them; in worker at /etc/app/"},
		} {
			got := compared(t, &txtar.Archive{Files: []txtar.File{
				{Name: "base/pools/worker/10-a.bu", Data: []byte(markedDoc + "same\n")},
				{Name: "head/pools/worker/10-a.bu", Data: []byte(markedDoc + "same\n")},
				{Name: "base/" + file, Data: []byte(c.base)},
				{Name: "head/" + file, Data: []byte(c.head)},
			}})
			if text := report.Text(got, report.Style{}); !strings.Contains(text, c.want) || !got.Changed() {
				t.Errorf("%s: lacks %q:\n%s", file, c.want, text)
			}
		}
	}
}
