package rollout

import (
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// config is a rendered config with remote files, each named by a letter of their hashes, and one file with contents.
func config(name string, letters ...string) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{}
	mc.Name = name
	files := []string{`{"path":"/etc/motd","contents":{"source":"data:,hello"}}`}
	for _, l := range letters {
		files = append(files,
			fmt.Sprintf(
				`{"path":"/opt/%s","contents":{"source":"https://x.example/%s","verification":{"hash":"sha256-%s"}}}`,
				l, l, strings.Repeat(l, 64)))
	}
	mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[` + strings.Join(files, ",") +
		`]}}`)
	return mc
}

func TestWhichConfigsBringNewFiles(t *testing.T) {
	f := newRemoteFiles(func() {})
	for _, mc := range []*mcfgv1.MachineConfig{
		config("none"), config("a", "a"), config("ab", "a", "b"),
		config("other-a", "a"), config("b", "b"),
	} {
		f.Examine(mc)
		f.Examine(mc)
	}
	broken := config("broken", "c")
	broken.Spec.Config.Raw = append(broken.Spec.Config.Raw, '}')
	f.Examine(broken)
	for sentence, c := range map[string]struct {
		target, before string
		want           bool
	}{
		"a config without remote files brings none":          {"none", "a", false},
		"a first file is new":                                {"a", "none", true},
		"so is one beside another":                           {"ab", "a", true},
		"the same file in another config is not":             {"other-a", "a", false},
		"nor is one that goes":                               {"a", "ab", false},
		"nothing is known of a pool that was never healthy":  {"a", "", true},
		"a file that some nodes had is new to the others":    {"a", "a b", true},
		"a file that all nodes had is not":                   {"a", "a ab", false},
		"it is enough that one node gets a new file":         {"a b", "a", true},
		"a config that daemons refuse brings none":           {"broken", "none", false},
		"nor does a config that the cluster does not have":   {"gone", "a", false},
		"and before it, it may have had any, so all are new": {"a", "gone", true},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := f.New(strings.Fields(c.target), strings.Fields(c.before)); got != c.want {
				t.Errorf("%q after %q brings new files: %t, want %t", c.target, c.before, got, c.want)
			}
		})
	}
}
