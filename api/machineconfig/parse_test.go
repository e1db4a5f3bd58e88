package machineconfig_test

import (
	"reflect"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

func spec(config string) mcfgv1.MachineConfigSpec {
	return mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(config)}}
}

func TestParseSaysWhatIsWrongAndWhere(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		want   []string
	}{
		"a relative path is named by its list, index and value": {
			`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a"},{"path":"etc/a"}]}}`,
			[]string{"files[1] etc/a path: path not absolute"},
		},
		"all problems come at once": {
			`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"etc/a"},{"path":"/b"},{"path":"/b"}],"links":[{"path":"/l"}]}}`,
			[]string{
				"files[0] etc/a path: path not absolute", "files[2] /b: duplicate entry defined",
				"links[0] /l target: link target is required",
			},
		},
		"a newer version is refused with the list of supported ones": {
			`{"ignition":{"version":"3.6.0"}}`,
			[]string{`ignition.version "3.6.0" is not supported`, "3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0 and 3.5.0"},
		},
		"version 2 is refused with advice": {
			`{"ignition":{"version":"2.2.0"}}`,
			[]string{`"2.2.0" is not supported`, "rewrite the config as version 3"},
		},
		"a missing version is asked for":   {`{}`, []string{"no ignition.version"}},
		"a version that is no version":     {`{"ignition":{"version":"3.x.0"}}`, []string{`"3.x.0" is not supported`}},
		"a wrong type":                     {`{"ignition":{"version":"3.5.0"},"storage":{"files":"x"}}`, []string{"cannot unmarshal"}},
		"something that is not JSON":       {`{"ignition`, []string{"reading config as JSON"}},
		"a list where an object should be": {`[]`, []string{"reading config as JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := machineconfig.Parse(spec(c.config))
			if err == nil {
				t.Fatal("Parse took it")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error lacks %q:\n%v", w, err)
				}
			}
		})
	}
}

// TestDecode: what Parse reads, without the rules of the newest version.
func TestDecode(t *testing.T) {
	for sentence, c := range map[string]struct {
		config string
		// of Decode; "" for none
		wrong string
	}{
		"a valid config":    {`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a","mode":420}]}}`, ""},
		"an older version":  {`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/a"}]}}`, ""},
		"a broken rule":     {`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"a"}]}}`, ""},
		"an older one":      {`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"a"}]}}`, "not absolute"},
		"a wrong type":      {`{"ignition":{"version":"3.5.0"},"storage":{"files":"x"}}`, "cannot unmarshal"},
		"another version":   {`{"ignition":{"version":"3.6.0"}}`, "is not supported"},
		"no version":        {`{}`, "no ignition.version"},
		"no JSON":           {`{"ignition`, "reading config as JSON"},
		"no inline config":  {``, ""},
		"a nested old one":  {`{"ignition":{"version":"3.0.0"}}`, ""},
		"a list, no object": {`[]`, "reading config as JSON"},
	} {
		t.Run(sentence, func(t *testing.T) {
			decoded, err := machineconfig.Decode(spec(c.config))
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("got %v, want %q", err, c.wrong)
			}
			parsed, wrong := machineconfig.Parse(spec(c.config))
			if wrong == nil && !reflect.DeepEqual(decoded, parsed) {
				t.Errorf("decoded %+v\nparsed  %+v", decoded, parsed)
			}
			if sentence == "a broken rule" && wrong == nil {
				t.Error("Parse does not apply the rules")
			}
		})
	}
}

func TestSpecIsCanonical(t *testing.T) {
	for name, c := range map[string]struct{ config, want string }{
		"an older version is translated": {
			`{"ignition":{"version":"3.1.0"}}`,
			`{"ignition":{"version":"3.5.0"}}`,
		},
		"empty structs and unknown keys go, empty items of lists stay": {
			`{"ignition":{"version":"3.5.0","timeouts":{}},"storage":{"files":[{"path":"/a","append":[{}],"contents":{"source":"data:,%7B%22k%22:%7B%7D%7D"},"typo":1}]},"systemd":{}}`,
			`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a","append":[{}],"contents":{"source":"data:,%7B%22k%22:%7B%7D%7D"}}]}}`,
		},
		"explicit false, zero and empty text stay": {
			`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"a.service","mask":false,"contents":""}]},"storage":{"files":[{"path":"/a\"{},","mode":0}]}}`,
			`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a\"{},","mode":0}]},"systemd":{"units":[{"contents":"","mask":false,"name":"a.service"}]}}`,
		},
		"no config stays no config": {``, ``},
		"null is no config":         {`null`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := machineconfig.Parse(spec(c.config))
			if err != nil {
				t.Fatal(err)
			}
			out, err := cfg.Spec()
			if err != nil {
				t.Fatal(err)
			}
			if string(out.Config.Raw) != c.want {
				t.Errorf("got  %s\nwant %s", out.Config.Raw, c.want)
			}
			if out.KernelArguments == nil || out.Extensions == nil {
				t.Error("lists are never null in the canonical form")
			}
			if cfg.HasIgnition != (c.want != "") {
				t.Errorf("HasIgnition is %v", cfg.HasIgnition)
			}
		})
	}
}

func TestAProblemDoesNotQuoteAUnit(t *testing.T) {
	_, err := machineconfig.Parse(
		spec(`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"db.service","contents":"[Service] Environment=DB_PASSWORD=hunter2\n"}]}}`))
	if err == nil || !strings.Contains(err.Error(), "units[0] db.service") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
