package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDriftReadsWhatTheDaemonKnows: list, show and export on a machine's directory, beside the daemon.
func TestDriftReadsWhatTheDaemonKnows(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"etc/chrony.conf": "server b\n",
		"etc/other":       "not managed\n",
		"var/lib/machine-config-daemon/drift/etc%2Fchrony.conf.diff": "-server a\n+server b\n",
		"var/lib/machine-config-daemon/drift/state.json": `{"report":{"config":"rendered-worker-1","items":[
		 {"name":"/etc/chrony.conf","kind":"content","action":"Degrade","since":"2026-01-02T12:00:00Z","actual":{}},
		 {"name":"/etc/gone","kind":"missing","action":"Report","since":"2026-01-02T12:00:00Z","actual":{}},
		 {"name":"app.service","kind":"enablement","action":"Report","since":"2026-01-02T12:00:00Z","why":"unit \"app.service\": expected enabled; received disabled"}]}}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(dir, "etc/chrony.conf"), 0, 7); err != nil {
			t.Fatal(err)
		}
	}
	call := func(args ...string) (string, error) {
		cmd := newDrift()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(append(args, "--root="+dir))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	for _, c := range []struct {
		says string
		args []string
		want []string
	}{
		{"a list", []string{"list"}, []string{"PATH", "/etc/chrony.conf   content      Degrade   2026-01-02T12:00:00Z", "received disabled"}},
		{"a difference", []string{"show", "/etc/chrony.conf"}, []string{"-server a\n+server b\n"}},
		{"contents, mode and config of a path", []string{"export", "/etc/chrony.conf"}, []string{`"path":"/etc/chrony.conf","config":"rendered-worker-1","type":"file","mode":416`, `"contents":"c2VydmVyIGIK"`}},
		{"a path that is gone", []string{"export", "/etc/gone"}, []string{`"type":""`}},
	} {
		out, err := call(c.args...)
		if err != nil {
			t.Errorf("%s: %v", c.says, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: it does not print %q but %q", c.says, want, out)
			}
		}
	}
	for _, args := range [][]string{
		{"show", "/etc/other"},
		{"export", "/etc/other"},
		{"export", "/etc/shadow"},
		{"export", "app.service"},
	} {
		if out, err := call(args...); err == nil || !strings.Contains(err.Error(), "has not drifted") || out != "" {
			t.Errorf("%q: %q, %v", args, out, err)
		}
	}
	for _, args := range [][]string{{"show"}, {"list", "x"}, {"export", "a", "b"}} {
		var usage *usageError
		if _, err := call(args...); !errors.As(err, &usage) {
			t.Errorf("%q: %v is no usage error", args, err)
		}
	}
	dir = t.TempDir()
	if out, err := call("list"); err != nil || out != "No drift known.\n" {
		t.Errorf("a machine without a daemon: %q, %v", out, err)
	}
}
