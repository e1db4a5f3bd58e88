package disruption_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

var update = flag.Bool("update", false, "write docs/disruption.md from the table")

// TestTheDocsShowTheTable keeps docs/disruption.md what the code does.
func TestTheDocsShowTheTable(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "disruption.md")
	want := page(disruption.Default())
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
		t.Errorf("docs/disruption.md is not the table (-table +file); run `go test ./internal/disruption -update`:\n%s",
			diff)
	}
}

func page(p disruption.Policy) string {
	var b strings.Builder
	b.WriteString(`# What a change costs a node

<!-- Written from internal/disruption/table.go by go test ./internal/disruption -update -->

For authors and reviewers of configs. This page says what each change requires on a running node,
from nothing to a reboot, and how to write rules that require less.

A node applies a new config in place if it can. The *node disruption policy* decides what a change
of each file and unit requires. Its default rules are below. Set your own rules in
` + "`spec.nodeDisruptionPolicy` of the `MachineConfiguration cluster`" + `: each replaces the default rule
for the same path or name.

## Look up the default policy

- A rule for a directory covers everything below it. If several rules cover a file, the longest path
  decides. A path with a trailing slash means a directory, and covers no file of that name. A rule
  for ` + "`/`" + ` covers nothing.
- **What no rule covers reboots the node**, after a drain. So does every change of the OS image,
  kernel arguments, kernel type and extensions.
- If any part of an update needs a reboot, the node is drained and reboots, and no reload or restart
  runs. Otherwise the daemon runs the actions of all changes, in the order of the changes and of the
  list in each rule. An action that several changes need runs several times, and a drain comes first.
- A file with the same bytes, mode and owner requires nothing, in any encoding. Nor does another way
  to write its path, through a link of systems with a merged /usr: ` + "`/lib/x` is `/usr/lib/x`" + `.
- Directories and links follow the rules of their path, as files do. Users and groups have one rule,
  ` + "`sshkey`" + `.

| Changed | What happens | Disruption |
|---|---|---|
`)
	row := func(what string, actions []disruption.Action) {
		var words []string
		worst := disruption.None
		for _, a := range actions {
			words = append(words, a.String())
			worst = max(worst, a.Disruption())
		}
		text, level := strings.Join(words, ", "), worst.String()
		if actions[0].Type == disruption.ActionSpecial {
			text, level = "Reload crio.service; a drain first unless the change is safe (below)", "reload or drain"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, text, level)
	}
	for _, r := range p.Files {
		row("`"+r.Name+"`", r.Actions)
	}
	for _, r := range p.Units {
		row("unit `"+r.Name+"`", r.Actions)
	}
	row("users (SSH keys, passwords and everything else) and groups", p.SSHKey)
	row("anything else", []disruption.Action{{Type: disruption.ActionReboot}})
	fmt.Fprintf(&b, "| %s | %s | %s |\n", "disks, filesystems, raid, luks, Ignition's `kernelArguments` and its own "+
		"section `ignition`", "nothing: only new nodes get it", disruption.None)
	b.WriteString(`
A change of ` + "`" + disruption.RegistriesConf + "`" + ` or of a file ` + "`*.conf`" + ` below
` + "`/etc/containers/registries.conf.d`" + ` is safe if every running pod would still get the same image.
Bunsen compares the combined content of all these files in the config. A change is safe if all of this
is true:

- it only appends to ` + "`unqualified-search-registries`" + ` of ` + "`registries.conf`" + `;
- in a drop-in, it changes nothing but ` + "`[[registry]]`" + ` tables;
- it removes no registry, and changes one only by new mirrors;
- every new mirror, and every mirror of a new registry, is for digests only
  (` + "`pull-from-mirror = \"digest-only\"`" + ` or ` + "`mirror-by-digest-only`" + `).

Disruptions in rising order: none, daemon-reload, reload, restart, drain, reboot. An update has the
disruption of its worst action.

`)
	b.WriteString(`## Rules that avoid reboots

If a change reboots nodes only because no rule covers it, ` + "`bunsen diff`" + ` and the comment of a pull
request print these rules, ready to paste. Rules have no effect until the MachineConfiguration has
them. Each service must exist on every node: an action for a missing unit fails the update. The only
exception is the reload of crio.service: the default policy has it, so a node without CRI-O skips it.
A unit that the change itself removes is stopped instead of reloaded or restarted.

Merge a rule before the change that needs it, in a commit of its own. If one commit has both
the rule and the change, its revert removes the rule together with the file, and then the removal of
the file reboots nodes. The review says so below its ` + "`undo:`" + ` line.

If a change removes a file, the review does not offer the first three rules of this table, because the
file's settings would stay in effect until the next boot.

| Changed | What happens | What to know |
|---|---|---|
`)
	for _, r := range disruption.WellKnown() {
		var words []string
		for _, a := range r.Actions {
			words = append(words, a.String())
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, strings.Join(words, ", "), r.Note)
	}
	b.WriteString(`
The review also offers ` + "`DaemonReload` and `Restart`" + ` for two kinds of units:

- An enabled service or timer whose text is in the config. Exceptions are templates, services of
  systemd, the message bus, the daemon itself, removed units, and units with
  ` + "`DefaultDependencies=no`, `RefuseManualStart=`, `RefuseManualStop=` or `ConditionFirstBoot=`" + `.
- Drop-ins of ` + "`kubelet.service`, `crio.service` and `containerd.service`" + `, unless the config disables
  or masks the unit.

## What a running node does not take

Some changes need a first boot. They **neither degrade nodes nor stop a rollout**: new nodes get them,
existing nodes keep their state, and every report says so (*existing nodes will not get this*):

- disks, filesystems and the units that mount them, raid, luks;
- Ignition's own ` + "`kernelArguments`" + ` and its section ` + "`ignition`" + `: certificate authorities, proxies,
  timeouts;
- how Ignition creates an account (` + "`system`, `noCreateHome`, `noLogInit`, `noUserGroup`" + `).

The daemon **refuses** these changes, and applies nothing of the update until the config no
longer has them:

| Refused | Why |
|---|---|
| a change of FIPS mode | The kernel decides it on first boot |
| the file ` + "`" + disruption.ForceFile + "`" + ` | It makes a daemon skip its checks |
| a user who had a key or a password and would have neither | Its owner could not log in |
| a group password | Only a first boot sets it |
| another uid or gid, or another ` + "`homeDir`" + `, of an account that the config had before | Its files would have no owner, or stay behind |
| ` + "`shouldExist: false`" + ` for root | A system needs root |

You may remove the whole entry of a user. Configs that no machine can apply are refused earlier, by
` + "`bunsen validate`" + ` and the renderer, so that no rollout begins with them:

- a file below a file, or one path twice
- a path that the daemon uses itself
- a name over 245 bytes
- an invalid account name or home directory
- a file whose owner or group the config removes, or a user whose group it removes

Some refusals depend on the host alone, so only the node's daemon decides them. This list is
complete:

- **Accounts**: a user or group that the config names but does not create is missing; an account has
  another number, or comes with the image; or the home directory, which only the node knows, does not
  allow the keys.
- **Paths**: a link, a directory or a file may not replace what is at its path; the config appends to
  something that is not a file; a hard link has no target; or a link on the node makes two paths one.
- **System**: the OS cannot change its image, kernel arguments, kernel type or extensions; or a new
  machine was installed without FIPS mode.

` + "`bunsen diff`" + ` lists the parts of a change that only the node can check.

The annotation ` + "`" + disruption.InPlaceAnnotation + `: openshift` + "`" + ` on ` + "`MachineConfiguration cluster`" + ` gives nodes the
limits of OpenShift. Nodes then refuse any change of these:

- directories, and links (except the removal of all);
- groups, and users other than core;
- storage layout and Ignition's ` + "`kernelArguments`" + `;
- appended files.

` + "`spec.irreconcilableValidationOverrides`" + ` allows changes of disks, filesystems and raid.
`)
	return b.String()
}
