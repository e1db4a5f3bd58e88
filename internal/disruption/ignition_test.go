package disruption_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// head is a config with more in its section `ignition` than the version.
func head(t *testing.T, more string) machineconfig.Config {
	t.Helper()
	if more != "" {
		more = "," + more
	}
	c, err := machineconfig.Parse(
		mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"` + more +
			`}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAnInlineConfigThatIsNamedIsPartOfTheOneThatNamesIt compares what machines get that boot with what nodes take.
func TestAnInlineConfigThatIsNamedIsPartOfTheOneThatNamesIt(t *testing.T) {
	child := func(mode string) string {
		return `"config":{"merge":[{"source":"data:;base64,` +
			base64.StdEncoding.EncodeToString(
				[]byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/x","mode":`+mode+`}]}}`)) +
			`"}]}`
	}
	for sentence, c := range map[string]struct{ from, to, want string }{
		"a config that is merged":        {"", child("420"), "added file /etc/x"},
		"another one in its place":       {child("420"), child("384"), "changed file /etc/x"},
		"one that is merged no more":     {child("420"), "", "removed file /etc/x"},
		"the same one, and a proxy more": {child("420"), child("420") + `,"proxy":{"noProxy":["a"]}`, "added ignition proxy"},
	} {
		t.Run(sentence, func(t *testing.T) {
			from, to := head(t, c.from), head(t, c.to)
			var got []string
			for _, x := range disruption.Compare(from, to) {
				got = append(got, fmt.Sprintf("%s %s %s", x.Verb, x.Kind, x.Name))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("changes are %q, want %s", got, c.want)
			}
			file := strings.Contains(c.want, "file")
			if d := disruption.Decide(from, to, disruption.Default()); (d.Disruption == disruption.Reboot) != file {
				t.Errorf("it costs %s", summary(d))
			}
			if later := disruption.NewNodesOnly(from, to); (len(later) == 0) != file {
				t.Errorf("for new nodes only are %v", later)
			}
		})
	}
}

// TestWhatAConfigTellsIgnitionIsForNewNodes covers the section `ignition`, which a running node reads no more.
func TestWhatAConfigTellsIgnitionIsForNewNodes(t *testing.T) {
	const merge = `"config":{"merge":[{"source":"data:,%7B%7D"}]}`
	for sentence, c := range map[string]struct{ from, to, want string }{
		"one that is merged no more":             {merge, "", "removed config.merge"},
		"an authority":                           {"", `"security":{"tls":{"certificateAuthorities":[{"source":"data:,x"}]}}`, "added security.tls"},
		"another proxy":                          {`"proxy":{"httpProxy":"http://a"}`, `"proxy":{"httpProxy":"http://b"}`, "changed proxy"},
		"hosts without a proxy in another order": {`"proxy":{"noProxy":["a","b"]}`, `"proxy":{"noProxy":["b","a"]}`, ""},
		"a timeout":                              {"", `"timeouts":{"httpTotal":9}`, "added timeouts"},
		"several at once, in lexical order":      {merge, `"timeouts":{"httpTotal":9},"proxy":{"noProxy":["a"]}`, "removed config.merge, added proxy, added timeouts"},
		"a config that says nothing of the kind": {"", "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			from, to := head(t, c.from), head(t, c.to)
			var got, fields []string
			for _, x := range disruption.Compare(from, to) {
				got = append(got, fmt.Sprintf("%s %s", x.Verb, x.Name))
				fields = append(fields, "ignition "+x.Name)
				if x.Kind != disruption.KindIgnition {
					t.Errorf("kind %s", x.Kind)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("changes are %q, want %s", got, c.want)
			}
			later := disruption.NewNodesOnly(from, to)
			if refusals(t, later) != strings.Join(fields, ", ") {
				t.Errorf("for new nodes only are %v, want %v", later, fields)
			}
			for _, r := range later {
				if !strings.HasPrefix(r.Why, "existing nodes will not get this: ") {
					t.Errorf("%s: %s", r.Field, r.Why)
				}
			}
			d := disruption.Decide(from, to, disruption.Default())
			if summary(d) != "None; none" || len(d.Items) != len(fields) {
				t.Errorf("it costs %s, with %d items", summary(d), len(d.Items))
			}
			if r := disruption.Refuse(from, to, disruption.Overrides{}); len(r) > 0 {
				t.Errorf("it is refused: %v", r)
			}
		})
	}
}

// TestNodesDownloadWithWhatAConfigTellsIgnition: certificate authorities and proxies are for the first boot, and the
// daemon of a running node uses them too, so that no node has to be replaced for them.
func TestNodesDownloadWithWhatAConfigTellsIgnition(t *testing.T) {
	for part, daemon := range map[string]bool{
		`"security":{"tls":{"certificateAuthorities":[{"source":"data:,x"}]}}`: true,
		`"proxy":{"httpsProxy":"http://a"}`:                                    true,
		`"timeouts":{"httpTotal":9}`:                                           false,
	} {
		only := disruption.NewNodesOnly(head(t, ""), head(t, part))
		if len(only) != 1 || strings.Contains(only[0].Why, "downloads") != daemon ||
			strings.Contains(only[0].Why, "replace") == daemon {
			t.Errorf("%s: %v", part, only)
		}
	}
}
