package disruption_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/apimachinery/pkg/runtime"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// inline returns a resource that holds a config: as plain text, in base64, or compressed.
func inline(config []byte, encoding uint8) ign.Resource {
	source := "data:," + dataurl.Escape(config)
	var compression *string
	switch encoding % 3 {
	case 1:
		source = "data:;base64," + base64.StdEncoding.EncodeToString(config)
	case 2:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(config) // a buffer takes all
		_ = w.Close()
		kind := "gzip"
		source, compression = "data:;base64,"+base64.StdEncoding.EncodeToString(b.Bytes()), &kind
	}
	return ign.Resource{Source: &source, Compression: compression}
}

// wrapped returns a config that does nothing but merge another one, or stand for it.
func wrapped(config []byte, encoding uint8, replace bool) []byte {
	r := inline(config, encoding)
	compression := ""
	if r.Compression != nil {
		compression = fmt.Sprintf(`,"compression":%q`, *r.Compression)
	}
	named := fmt.Sprintf(`{"source":%q%s}`, *r.Source, compression)
	if replace {
		return fmt.Appendf(nil, `{"ignition":{"version":"3.4.0","config":{"replace":%s}}}`, named)
	}
	return fmt.Appendf(nil, `{"ignition":{"version":"3.4.0","config":{"merge":[%s]}}}`, named)
}

// addConfigs adds seeds: pairs of an outer config and one that it names.
func addConfigs(f *testing.F) {
	const head = `{"ignition":{"version":"3.5.0"},`
	for i, body := range []string{
		`"storage":{"files":[{"path":"/usr/local/bin/x","mode":2541}]}}`,
		`"storage":{"files":[{"path":"/etc/a","append":[{"source":"data:,a"}]}],"links":[{"path":"/etc/a/b","target":"/etc/c","hard":true}],"directories":[{"path":"/var/lib/machine-config-daemon/x"}]}}`,
		`"systemd":{"units":[{"name":"x.service","mask":true,"contents":"[Unit]\n","dropins":[{"name":"../../../../root/x.conf","contents":"[Unit]\n"}]}]}}`,
		`"passwd":{"users":[{"name":"core","homeDir":"/home/core","sshAuthorizedKeys":["ssh-ed25519 AAAA"],"groups":["wheel"]},{"name":"root\nx:0"}],"groups":[{"name":"g","gid":1}]}}`,
		`"storage":{"disks":[{"device":"/dev/sdb"}],"filesystems":[{"device":"/dev/sdb1","format":"xfs","path":"/var"}],"luks":[{"name":"l","device":"/dev/sdc"}]},"kernelArguments":{"shouldExist":["a"]}}`,
		`"storage":{"files":[{"path":"/etc/a","user":{"name":"nobody"},"contents":{"source":"https://example.org/a"}},{"path":"/etc/containers/registries.conf","contents":{"source":"data:,%5B%5B"}}]}}`,
		`"storage":{"links":[{"path":"/a","target":"/b"},{"path":"/b","target":"a"}]}}`,
	} {
		for shape := range uint8(12) {
			f.Add([]byte(head+`"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,a"}}]}}`),
				[]byte(head+body), shape+uint8(i))
		}
	}
	f.Add([]byte(`{"ignition":{"version":"3.5.0"}}`),
		[]byte(`{"ignition":{"version":"3.0.0","config":{"merge":[{"source":"data:,%7B"}]}}}`), uint8(3))
	f.Add([]byte(`{"ignition":{"version":"3.5.0"}}`), []byte(`{"ignition":{"version":"3.4.0"},"storage":[[[[`),
		uint8(0))
}

// FuzzFlat: no config makes a check panic, whatever configs it names and however they are encoded. A flat config stays
// as it is, and every check has the same findings of a config and of its flat form.
func FuzzFlat(f *testing.F) {
	addConfigs(f)
	f.Fuzz(func(t *testing.T, outer, inner []byte, shape uint8) {
		if len(outer)+len(inner) > 64<<10 {
			return
		}
		if shape&8 != 0 {
			inner = wrapped(inner, shape>>4, shape&128 != 0)
		}
		c, err := machineconfig.Parse(mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: outer}})
		if err != nil {
			return
		}
		if shape&4 != 0 {
			c.Ignition.Ignition.Config.Replace = inline(inner, shape)
		} else {
			c.Ignition.Ignition.Config.Merge = append(c.Ignition.Ignition.Config.Merge, inline(inner, shape))
		}
		all := findings(c)
		flat, err := machineconfig.Flat(c)
		if err != nil {
			if len(disruption.Invalid(c)) == 0 || len(machineconfig.Check(c)) == 0 {
				t.Fatalf("no check finds that the config has no flat form: %v", err)
			}
			return
		}
		if diff := cmp.Diff(all, findings(flat)); diff != "" {
			t.Errorf("the flat form has other findings (-config +flat):\n%s", diff)
		}
		again, err := machineconfig.Flat(flat)
		if diff := cmp.Diff(flat, again); err != nil || diff != "" {
			t.Errorf("the flat form of a flat config is another: %v\n%s", err, diff)
		}
		if d := disruption.Decide(c, flat, disruption.Default()); len(d.Items) > 0 ||
			len(disruption.Refuse(c, flat, disruption.Overrides{})) > len(disruption.Invalid(flat)) {
			t.Errorf("a config differs from its flat form: %v", d.Items)
		}
		if bad := machineconfig.Check(flat); len(bad) > 0 && len(machineconfig.Check(c)) == 0 {
			t.Errorf("Check accepts a config with a flat form that it refuses: %v", bad)
		}
	})
}

// findings is what every check of the package says about a config by itself, and as the first and the last of a pool.
func findings(c machineconfig.Config) map[string]any {
	var none machineconfig.Config
	return map[string]any{
		"Invalid":  disruption.Invalid(c),
		"accounts": disruption.AccountsNamed(c),
		"first":    disruption.Decide(none, c, disruption.Default()), "first refused": disruption.Refuse(none, c,
			disruption.Overrides{}),
		"first on node": disruption.CheckedOnNode(none, c), "first for new nodes": disruption.NewNodesOnly(none, c),
		"openshift": disruption.Refuse(none, c, disruption.Overrides{OpenShift: true}),
		"last":      disruption.Decide(c, none, disruption.Default()), "last refused": disruption.Refuse(c, none,
			disruption.Overrides{}),
		"last on node": disruption.CheckedOnNode(c, none), "last for new nodes": disruption.NewNodesOnly(c, none),
	}
}
