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
and how to write rules that require less.

A node applies a new config in place if it can. The *node disruption policy* decides what a change
of each file and unit requires. Write your own rules into the ` + "`MachineConfiguration cluster`" + `, for
example in ` + "`cluster/disruption.yaml`" + ` of your repository. Each replaces the default rule for the same
path or name:

` + "```yaml" + `
apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  name: cluster
spec:
  nodeDisruptionPolicy:
    files:
      - path: /etc/containerd/config.toml
        actions:
          - type: Drain
          - type: Restart
            restart:
              serviceName: containerd.service
` + "```" + `

An action is ` + "`Reboot`, `Drain`, `Reload`, `Restart`, `DaemonReload` or `None`. `Reboot` and `None`" + `
must be the only action of their rule. Rules for units are in a list ` + "`units`, with `name`" + ` instead of
` + "`path`. Users and groups have one rule, `sshkey`, which has only `actions`" + `.

## Look up the default policy

- A rule for a directory covers everything below it. If several rules cover a file, the longest path
  decides. A path with a trailing slash means a directory, and covers no file of that name. A rule
  for ` + "`/`" + ` has no effect.
- **What no rule covers reboots the node**, after a drain. So does every change of the OS image,
  kernel arguments, kernel type and extensions.
- If any part of an update needs a reboot, the node is drained and reboots, and no reload or restart
  runs. Otherwise a drain comes first if a change needs one. Then the daemon runs the actions of all
  changes: first those for files, in the order of their paths, then those for units, accounts,
  directories and links. The actions for one change run in the order of its rule.
- A file whose bytes, mode and owner stay the same requires nothing, even if its encoding changes.
  The same holds if only the spelling of its path changes: on the systems that Bunsen supports,
  ` + "`/lib/x` and `/usr/lib/x`" + ` are one file.
- What a config does not set of a file without contents, of a directory or of a link is the
  machine's. If you set it later, that is a change, even if you set the default.
- Directories and links follow the rules of their path, as files do.

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
	fmt.Fprintf(&b, "| %s | %s | %s |\n", "disks, filesystems, raid, luks, and [a few other parts]"+
		"(#what-a-running-node-cannot-apply) of an Ignition config", "nothing: only new nodes get it", disruption.None)
	b.WriteString(`
A change of ` + "`" + disruption.RegistriesConf + "`" + ` or of a file ` + "`*.conf`" + ` below
` + "`/etc/containers/registries.conf.d`" + ` is safe if every running pod would still get the same image.
Bunsen compares the combined content of all these files in the config. It considers the change safe
if all of these conditions are met:

- ` + "`registries.conf`" + ` is not removed, and its ` + "`unqualified-search-registries`" + ` stay the same or get
  further entries at the end;
- none of them appends to a file of the node (` + "`append`" + ` without ` + "`contents`" + `), whose text the review
  does not know;
- drop-ins change only in their ` + "`[[registry]]`" + ` tables;
- no registry or mirror is removed, and existing registries change only by new mirrors;
- a new registry has at least one mirror, and is not blocked;
- every new mirror is for digests only
  (` + "`pull-from-mirror = \"digest-only\"`" + ` or ` + "`mirror-by-digest-only`" + `).

Disruptions in rising order: none, daemon-reload, reload, restart, drain, reboot. An update has the
disruption of its worst action.

`)
	b.WriteString(`## Rules that avoid reboots

If a change reboots nodes only because no rule covers it, the *review* prints the rules from the
table below that would avoid the reboot. The review is the output of ` + "`bunsen diff`" + ` and Bunsen's
comment on the pull request. Paste the rules where the review says. If a rule has a service, each
node that gets the file must have this service: otherwise the update fails. There are two
exceptions: a node without CRI-O skips a reload, but not a restart, of crio.service; and of the two
services of k3s or RKE2, a node skips the one that it does not have.

If a change removes a unit, the unit is stopped instead of reloaded or restarted.

Merge a rule before the change that needs it, in a commit of its own. If one commit has both the
rule and the change, its revert removes the rule together with the file, and then the removal of the
file reboots nodes. The review says so below its ` + "`undo:`" + ` line.

If a change removes a file, the review does not offer the first three rules of this table, because
the file's settings would stay in effect until the next boot.

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

- Enabled services and timers whose unit file is in the config. Exceptions are templates, services
  of systemd, the message bus, the daemon itself, removed units, and units with
  ` + "`DefaultDependencies=no`, `RefuseManualStart=`, `RefuseManualStop=` or `ConditionFirstBoot=`" + `.
- Drop-ins of ` + "`kubelet.service`, `crio.service` and `containerd.service`" + `, unless the config disables
  or masks the unit.

## What a running node cannot apply

Some changes need a first boot. They **neither degrade nodes nor stop a rollout**: new nodes get
them, existing nodes keep their state, and every report says so (*existing nodes will not get
this*):

- disks, filesystems and the units that mount them, raid, luks;
- kernel arguments that [stay in the Ignition config](repository.md#butane), such as those of
  Butane's variant ` + "`flatcar`" + `;
- Ignition's section ` + "`ignition`" + `: certificate authorities, proxies, timeouts;
- how Ignition creates an account (` + "`system`, `noCreateHome`, `noLogInit`, `noUserGroup`" + `).

The daemon **refuses** these changes, and applies nothing of the update until the config no
longer has them:

| Refused | Why |
|---|---|
| a change of FIPS mode | The kernel decides it on first boot |
| the file ` + "`" + disruption.ForceFile + "`" + ` | It makes a daemon skip its checks |
| a user who had a key or a password and would have neither | Nobody could log in as this user |
| a group password | Only a first boot sets it |
| another uid or gid, or another ` + "`homeDir`" + `, of an account that the config had before | Its files would have no owner, or stay behind |
| ` + "`shouldExist: false`" + ` for root | A system needs root |

You may remove a user's whole entry. Configs that no machine can apply are refused earlier, by
` + "`bunsen validate`" + ` and the renderer, so that no rollout begins with them:

- a file below a file, or one path twice
- a path that the daemon uses itself
- a name over 245 bytes
- an invalid account name or home directory
- a file whose owner or group the config removes, or a user whose group it removes

Whether some configs can be applied depends on the host alone, so only the node's daemon can find
out. It refuses a config in these cases:

- **Accounts**: a file's owner or group, or a user's group, is neither in the config nor on the
  node; an account has another uid or gid on the node than in the config; the config sets an account
  that the node has only in the OS image (` + "`/usr/lib/passwd` or `/usr/lib/group`" + `); or a user should
  get a group of its own, and the node has another group of that name.
- **SSH keys**: the user's home directory belongs to another user, is a link that leads nowhere, or
  has no valid path; or the config itself has a file at the path of the keys.
- **Paths**: at the path of a link, a directory, or a file with ` + "`overwrite: false`" + `, the node has
  something else that no config created; the config appends to something that is not a file; a hard
  link has no target; because of a link on the node, two paths of the config are the same; or [a
  user of the node could redirect the path](security-nodes.md#a-local-user-of-a-node).
- **Units**: the config enables a unit that somebody masked by hand, or whose ` + "`[Install]`" + ` section a
  drop-in on the node clears; or it has different settings for two names of one unit.
- **System**: the config changes the OS image, kernel arguments, kernel type or extensions, and the
  daemon cannot change these on this OS; the config has [a kernel argument that GRUB would
  change](distributions.md#set-kernel-arguments-on-flatcar-debian-and-ubuntu); or the config of a
  new machine asks for FIPS mode, and the machine was installed without it.

` + "`bunsen diff`" + ` lists the parts of a change that only the node can check.

The annotation ` + "`" + disruption.InPlaceAnnotation + `: openshift` + "`" + ` on ` + "`MachineConfiguration cluster`" + ` gives nodes the
limits of OpenShift. Nodes then refuse any change of these:

- directories, and links, except that a config may remove all its links at once;
- groups, and users other than core;
- storage layout and Ignition's ` + "`kernelArguments`" + `;
- appended files.

Even with this annotation, ` + "`spec.irreconcilableValidationOverrides`" + ` of the same object can let
changes of disks, filesystems and raid through. Only new nodes then get them.
`)
	return b.String()
}
