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

- A rule for a directory covers everything below it; of several, the longest path decides. A path with a trailing slash means the
  directory: it covers no file of that name. A rule for ` + "`/`" + ` covers nothing.
- **What no rule covers reboots the node**, after its pods have moved away. So does every change of the OS image, kernel
  arguments, kernel type and extensions.
- If anything of an update reboots, that is all that happens. Otherwise each action is done, in the order of the
  changes and of each rule's list, with repetitions. Pods move away before the first one where any of them is a drain.
- A file whose bytes, mode and owner stay the same costs nothing, however its contents are written in the config.
- Directories and links go by the rules of their path, as files do. Users and groups have one rule, ` + "`sshkey`" + `.

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
	row("users (SSH keys, passwords and all the rest) and groups", p.SSHKey)
	row("anything else", []policy.Action{{Type: policy.ActionReboot}})
	fmt.Fprintf(&b, "| %s | %s | %s |\n", "disks, filesystems, raid, luks, Ignition's `kernelArguments` and its own section `ignition`", "nothing: only new nodes get it", policy.None)
	b.WriteString(`
A change of ` + "`" + policy.RegistriesConf + "`" + ` is safe if no running pod can get another image by it, or none:
` + "`unqualified-search-registries`" + ` is only appended to; no registry goes, and none changes but by new mirrors; every new mirror,
and every mirror of a new registry, is for digests only (` + "`pull-from-mirror = \"digest-only\"`" + ` or ` + "`mirror-by-digest-only`" + `).

Disruptions in rising order: none, daemon-reload, reload, restart, drain, reboot. An update has that of its worst action.

`)
	b.WriteString(`## Rules that avoid reboots

` + "`bunsen diff`" + ` and the comment of a pull request print these rules, ready to paste, where a change reboots nodes only because no rule
covers it. They are not in force until you add them. Each service must exist on every node: an action for a missing unit fails the update.

The first three rules are not offered for a removed file, because its settings stay until the next boot.

| Changed | What happens | What to know |
|---|---|---|
`)
	for _, r := range policy.WellKnown() {
		var words []string
		for _, a := range r.Actions {
			words = append(words, a.String())
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, strings.Join(words, ", "), r.Note)
	}
	b.WriteString(`
The review also offers ` + "`DaemonReload` and `Restart`" + ` for two kinds of units:

- An enabled service or timer whose text the config holds. Excluded are templates, services of systemd, the message bus, the daemon itself, units with
  ` + "`DefaultDependencies=no`, `RefuseManualStart=`, `RefuseManualStop=` or `ConditionFirstBoot=`" + `, and removed units.
- Drop-ins of ` + "`kubelet.service`, `crio.service` and `containerd.service`" + `, unless the config disables or masks the unit.

## What a running node does not take

Differences that only a first boot can bring about **block nothing**: new nodes get them, existing ones stay as they are, and every
report says so (*existing nodes will not get this*): disks, filesystems and the units that mount them, raid, luks, Ignition's own ` + "`kernelArguments`" + `, what a config tells
Ignition about itself (its section ` + "`ignition`" + `: certificate authorities, proxies, timeouts),
and how an account is made (` + "`system`, `noCreateHome`, `noLogInit`, `noUserGroup`" + `).

These are **refused**, and nothing of the update is applied until they are gone:

| Refused | Why |
|---|---|
| a change of FIPS mode | The kernel decides it on first boot |
| the file ` + "`" + policy.ForceFile + "`" + ` | It makes a daemon skip its checks |
| a user who had a key or a password and would have neither | Its owner would be locked out. Removing the whole entry is let through |
| a password of a group | It is set on first boot only |
| another uid or gid, or another ` + "`homeDir`" + `, of an account that the config had before | Its files would belong to nobody, or be left behind |
| ` + "`shouldExist: false`" + ` for root | |
| what no machine can have: a file below a file, one path twice, a path of the daemon, a name over 245 bytes, an account name or home directory that no machine takes, owners and groups that the config removes | ` + "`bunsen validate`" + ` and the renderer refuse it too, so that no rollout begins with it |

Some refusals depend on the host alone. Only the node's daemon decides them, and the list is closed:

| Checked on the node | A node refuses the config where |
|---|---|
| accounts | a user or group that the config names and does not make is not there; an account has another number, or comes with the image; only the node knows a home directory, and the keys have no place there |
| paths | something is in the place of a link, a directory or a file that may not replace it; what is appended to is no file; a hard link leads to nothing; a link of the node makes two paths one |
| system | the OS cannot change its image, kernel arguments, kernel type or extensions; a new machine was installed without FIPS mode |

` + "`bunsen diff`" + ` names the parts of the OS, accounts, links and hard links that the change brings and that are checked on the node.

The annotation ` + "`" + policy.InPlaceAnnotation + `: openshift` + "`" + ` on ` + "`MachineConfiguration cluster`" + ` keeps nodes to the limits of OpenShift: then any difference in
directories, links (but for the removal of all), groups, users other than core, storage layout and Ignition's ` + "`kernelArguments`" + ` is refused, and so are
appended files; ` + "`spec.irreconcilableValidationOverrides`" + ` lifts the refusal of disks, filesystems and raid.
`)
	return b.String()
}
