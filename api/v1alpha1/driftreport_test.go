package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func TestAReportOfDriftIsWhatADaemonWrites(t *testing.T) {
	for sentence, c := range map[string]struct{ text, problem string }{
		"nothing":            {"", ""},
		"a report":           {`{"config":"a","items":[{"name":"/etc/motd","kind":"content","action":"Degrade","since":null}]}`, ""},
		"no JSON":            {`{`, "unexpected end"},
		"a kind with a line": {`{"items":[{"kind":"kind\nTo do: x","action":"Degrade"}]}`, `kind "kind\nTo do: x"`},
		"an action with one": {`{"items":[{"kind":"content","action":"Warn\nnode-1  x"}]}`, `action "Warn\nnode-1  x"`},
		"too much":           {`{"items":[],"config":"` + strings.Repeat("x", v1alpha1.MaxDrift) + `"}`, "a daemon writes at most 16384"},
	} {
		_, err := v1alpha1.ParseDrift(c.text)
		if c.problem == "" && err != nil || c.problem != "" &&
			(err == nil || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s: %v, want %q", sentence, err, c.problem)
		}
	}
}

func TestANodeRunsAConfigOrSomethingUnreadable(t *testing.T) {
	for sentence, c := range map[string]struct{ config, secrets, want string }{
		"a config":              {"rendered-worker-1", "", "rendered-worker-1"},
		"with secrets":          {"rendered-worker-1", "0af1", "rendered-worker-1@0af1"},
		"nothing":               {"", "", ""},
		"secrets with a line":   {"a", "cs\nTo do: x", "a@UNREADABLE"},
		"a config with a line":  {"a\nTo do: x", "", "UNREADABLE"},
		"a config with secrets": {"a@00", "", "UNREADABLE"},
	} {
		is := v1alpha1.ReportedConfig(map[string]string{
			v1alpha1.CurrentConfigAnnotation: c.config, v1alpha1.CurrentSecretsAnnotation: c.secrets,
		})
		if is.String() != c.want {
			t.Errorf("%s: %q, want %q", sentence, is, c.want)
		}
	}
}
