package policy_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/policy"
)

var update = flag.Bool("update", false, "write docs/disruption.md from the table")

// TestTheDocsShowTheTable keeps docs/disruption.md what the code does.
func TestTheDocsShowTheTable(t *testing.T) {
	file := filepath.Join("..", "docs", "disruption.md")
	want := page(policy.Default())
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/disruption.md is not the table (-table +file); run `go test ./policy -update`:\n%s", diff)
	}
}

func page(p policy.Policy) string {
	var b strings.Builder
	b.WriteString(`# What a change costs a node

<!-- Written by the tests of package policy from the table in policy/table.go: go test ./policy -update -->

A node takes a new config in place where it can. What that disturbs is decided per file and unit by the *node disruption
policy*: the rules below, and those of your own in ` + "`MachineConfiguration cluster`" + ` (` + "`spec.nodeDisruptionPolicy`" + `), where a
rule for the same path or name replaces the one below.

- A rule for a directory covers everything below it; of several, the longest path decides. A rule for ` + "`/`" + ` covers nothing.
- **What no rule covers reboots the node**, after its pods have moved away. So does every change of the OS image, kernel
  arguments, kernel type and extensions.
- If anything of an update reboots, that is all that happens. Otherwise all actions are done, in order, with repetitions.
- A file whose bytes, mode and owner stay the same costs nothing, however its contents are written in the config.

| Changed | What happens | Disruption |
|---|---|---|
`)
	row := func(what string, actions []policy.Action) {
		var words []string
		worst := policy.None
		for _, a := range actions {
			words = append(words, a.String())
			worst = max(worst, a.Disruption())
		}
		text, level := strings.Join(words, ", "), worst.String()
		if actions[0].Type == policy.ActionSpecial {
			text, level = "Reload crio.service; pods move away first unless the change is safe (below)", "reload or drain"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, text, level)
	}
	for _, r := range p.Files {
		row("`"+r.Name+"`", r.Actions)
	}
	for _, r := range p.Units {
		row("unit `"+r.Name+"`", r.Actions)
	}
	row("SSH keys of a user", p.SSHKey)
	row("anything else", []policy.Action{{Type: policy.ActionReboot}})
	b.WriteString(`
A change of ` + "`" + policy.RegistriesConf + "`" + ` is safe if no running pod can get another image by it, or none:
` + "`unqualified-search-registries`" + ` is only appended to; no registry goes, and none changes but by new mirrors; every new mirror,
and every mirror of a new registry, is for digests only (` + "`pull-from-mirror = \"digest-only\"`" + ` or ` + "`mirror-by-digest-only`" + `).

Disruptions in rising order: none, daemon-reload, reload, restart, drain, reboot. An update has that of its worst action.
`)
	return b.String()
}
