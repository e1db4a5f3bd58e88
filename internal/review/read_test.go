package review

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

func TestKeysAreNamedByTypeFingerprintAndComment(t *testing.T) {
	const blob = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	const print = "SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA"
	for line, want := range map[string]string{
		"ssh-ed25519 " + blob + " ada@laptop":                      "ssh-ed25519 " + print + " ada@laptop",
		"ssh-ed25519 " + blob:                                      "ssh-ed25519 " + print,
		`from="10.0.0.0/8" ssh-ed25519 ` + blob + " ada":           `from="10.0.0.0/8" ssh-ed25519 ` + print + " ada",
		`environment="TOKEN=hunter2" ssh-ed25519 ` + blob + " ada": `environment="TOKEN=hunter2" ssh-ed25519 ` + print + " ada",
		"hunter2 is not a key":                                     "of no known form: hunter2 is not a key",
	} {
		if got := strings.TrimSpace(sshKey(line)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestADifferenceSaysWhatHappensToAUnitWithoutAState(t *testing.T) {
	unit := func(text string) machineconfig.Config {
		raw := `{"ignition":{"version":"3.5.0"}}`
		if text != "" {
			raw = `{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"a.service",` + text + `}]}}`
		}
		c, err := machineconfig.Parse(mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(raw)}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const dropin, file = `"dropins":[{"name":"1.conf","contents":"[Unit]\n"}]`, `"contents":"[Unit]\n"`
	for name, c := range map[string]struct{ from, to, want string }{
		"a new drop-in":           {"", dropin, "+state unchanged\n"},
		"a new unit file":         {"", file, "+state unchanged; a new unit gets its preset\n"},
		"a setting that is gone":  {`"enabled":true,` + dropin, dropin, "-state enabled\n+state as it was before a config set it\n"},
		"a mask that is gone":     {`"mask":true`, dropin, "-state masked: never starts\n+state as it was before a config set it\n"},
		"a setting that is new":   {dropin, `"enabled":false,` + dropin, "-state not set\n+state disabled\n"},
		"a drop-in that is added": {file, file + "," + dropin, "# drop-in 1.conf (added)\n"},
	} {
		from, to := unit(c.from), unit(c.to)
		pairs := readItems([]disruption.Costed{{Change: disruption.Change{
			Kind: disruption.KindUnit,
			Name: "a.service",
		}}}, from, to,
			knownContent{})
		if diff, _, _ := newDiffer().difference(pairs[0]); !strings.HasPrefix(diff, c.want) || c.from == c.to {
			t.Errorf("%s: %q, want %q", name, diff, c.want)
		}
	}
}

// An update overwrites what only the old config left to the machine, so the difference is not empty.
func TestADifferenceNamesWhatIsUnset(t *testing.T) {
	for name, c := range map[string]struct {
		kind           disruption.ChangeKind
		from, to, want string
	}{
		"contents": {
			disruption.KindFile, `"files":[{"path":"/a","mode":420,"user":{"id":0},"group":{"id":0}}]`,
			`"files":[{"path":"/a","mode":420,"contents":{"source":"data:,"}}]`, "-contents unset\n",
		},
		"a mode": {
			disruption.KindFile, `"files":[{"path":"/a","append":[{"source":"data:,x"}]}]`,
			`"files":[{"path":"/a","mode":384,"append":[{"source":"data:,x"}]}]`, "-mode unset\n+mode 0600\n",
		},
		"a directory's mode": {
			disruption.KindDirectory, `"directories":[{"path":"/a"}]`, `"directories":[{"path":"/a","mode":493}]`,
			"-mode unset\n+mode 0755\n",
		},
		"a directory made anew": {
			disruption.KindDirectory, `"directories":[{"path":"/a","user":{"id":0},"overwrite":true}]`,
			`"directories":[{"path":"/a","user":{"id":0}}]`, "-mode 0755\n+mode unset\n+group unset\n",
		},
		"a link's owner": {
			disruption.KindLink, `"links":[{"path":"/a","target":"b"}]`,
			`"links":[{"path":"/a","target":"b","user":{"name":"root"}}]`, "-user unset\n",
		},
	} {
		read := func(storage string) machineconfig.Config {
			raw := `{"ignition":{"version":"3.5.0"},"storage":{` + storage + `}}`
			c, err := machineconfig.Parse(mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(raw)}})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		pairs := readItems([]disruption.Costed{{Change: disruption.Change{Kind: c.kind, Name: "/a"}}}, read(c.from),
			read(c.to), knownContent{})
		if diff, _, _ := newDiffer().difference(pairs[0]); diff != c.want {
			t.Errorf("%s: %q, want %q", name, diff, c.want)
		}
	}
}
