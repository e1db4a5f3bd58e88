package disruption

import (
	"regexp"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// LiveRule is a rule of the disruption policy that applies a change without a reboot.
type LiveRule struct {
	Rule
	Note string
	// A removed entry has an effect until the next boot.
	keepsRemoved bool
}

// AvoidReboot returns the rule that applies a change without a reboot: for the paths of WellKnown, for enabled services
// and timers whose text the new config contains, and for drop-ins of the kubelet and the container runtimes. It returns
// false if no such rule is known, if a rule of the policy covers the change, and for changes that always need their
// actions.
func AvoidReboot(c Change, from, to machineconfig.Config, p Policy) (rule LiveRule, ok bool) {
	switch c.Kind {
	case KindFile, KindLink, KindDirectory:
		if _, covered := fileRule(p.Files, c); covered {
			return LiveRule{}, false
		}
		return wellKnown(c)
	case KindUnit:
		covered := slices.ContainsFunc(p.Units, func(r Rule) bool { return r.Name == c.Name })
		if covered || c.Verb == Removed || !restartable.MatchString(c.Name) || untouchable.MatchString(c.Name) {
			return LiveRule{}, false
		}
		before := byKey(machineconfig.Flattened(from).Ignition.Systemd.Units)[c.Name]
		after := byKey(machineconfig.Flattened(to).Ignition.Systemd.Units)[c.Name]
		return unitRule(c.Name, before, after)
	}
	return LiveRule{}, false
}

func wellKnown(c Change) (LiveRule, bool) {
	all := WellKnown()
	rules := make([]Rule, len(all))
	for i, r := range all {
		rules[i] = r.Rule
	}
	best, ok := fileRule(rules, c)
	if !ok {
		return LiveRule{}, false
	}
	r := all[slices.IndexFunc(all, func(r LiveRule) bool { return r.Name == best.Name })]
	return r, !r.keepsRemoved || c.Verb != Removed
}

var (
	// A restart applies a change. A template has no instance to restart, and a target starts other units.
	restartable = regexp.MustCompile(`^[a-zA-Z0-9:._-]+\.(service|timer)$`)
	// They must not be restarted on a running node, such as the daemon.
	untouchable = regexp.MustCompile(
		`^(systemd-.*|dbus.*|machine-config-.*|bunsen-.*|getty.*|display-manager)\.(service|timer)$`)
	// directives of units that run while a machine boots, or that cannot be restarted
	bootOnly = regexp.MustCompile(
		`(?mi)^[ \t]*(DefaultDependencies[ \t]*=[ \t]*(no|false|off|0|n|f)|RefuseManualSt(art|op)[ \t]*=[ \t]*(yes|true|on|1|y|t)|ConditionFirstBoot[ \t]*=)`)
	// units that run a task and end
	oneshot = regexp.MustCompile(`(?m)^[ \t]*Type[ \t]*=[ \t]*oneshot[ \t]*$`)
	// A restart applies their new drop-ins, while containers continue to run.
	dropInServices = []string{"kubelet.service", crio, "containerd.service"}
)

func unitRule(name string, before, after ign.Unit) (LiveRule, bool) {
	text := contents(after)
	if isTrue(after.Mask) || bootOnly.MatchString(text) {
		return LiveRule{}, false
	}
	if !hasFile(after) {
		// A unit of the OS is restarted only if it is certainly enabled.
		disabled := after.Enabled != nil && !*after.Enabled
		if hasFile(before) || isTrue(before.Mask) || disabled || !slices.Contains(dropInServices, name) {
			return LiveRule{}, false
		}
	} else if !isTrue(after.Enabled) {
		return LiveRule{}, false
	}
	out := LiveRule{Rule: Rule{Name: name, Actions: daemonReload(restart(name))}}
	if oneshot.MatchString(text) {
		out.Note = "The unit is a oneshot unit: a restart runs it again and reverts nothing that it did before."
	}
	return out, true
}

func contents(u ign.Unit) string {
	var b strings.Builder
	for _, text := range append([]ign.Dropin{{Contents: u.Contents}}, u.Dropins...) {
		if text.Contents != nil {
			b.WriteString(*text.Contents + "\n")
		}
	}
	return b.String()
}

const (
	noteContainers = "Running containers keep their settings until they are created again."
	noteSessions   = "Open sessions keep their settings."
	noteSSH        = "On Debian and Ubuntu, the service is called ssh.service: if your nodes run one of them, write " +
		"that name into the rule, or the update fails."
	noteJournal     = "A new value of Storage= takes full effect only after the next boot."
	noteConnections = "Active connections keep their settings until they are activated again."
)

// WellKnown returns the rules of paths whose programs can reload them without a reboot, without paths that have no
// action for every host: sysusers.d, tmpfiles.d and audit rules, whose services cannot be restarted; modprobe.d, whose
// options have no effect on a loaded module; the kubelet's own config, because some fields need a new node.
func WellKnown() []LiveRule {
	rule := func(path, note string, actions []Action) LiveRule {
		return LiveRule{Rule: Rule{path, actions}, Note: note}
	}
	kept := func(path, note string, actions []Action) LiveRule { return LiveRule{Rule{path, actions}, note, true} }
	return []LiveRule{
		kept("/etc/sysctl.d/", "A key that a change removes keeps its value until the next boot. A key net.*.default "+
			"reaches new interfaces only.", restart("systemd-sysctl.service")),
		kept("/etc/modules-load.d/", "A module that a change removes stays loaded until the next boot.",
			restart("systemd-modules-load.service")),
		kept("/etc/udev/rules.d/", "Until the next boot, network interfaces keep their names, and devices keep the "+
			"settings of a removed rule.", append(reload("systemd-udevd.service"),
			restart("systemd-udev-trigger.service")...)),
		rule("/etc/chrony.conf", "", restart("chronyd.service")),
		rule("/etc/chrony.d/", "", restart("chronyd.service")),
		rule("/etc/chrony/", "", restart("chrony.service")),
		rule("/etc/systemd/timesyncd.conf", "", restart("systemd-timesyncd.service")),
		rule("/etc/systemd/timesyncd.conf.d/", "", restart("systemd-timesyncd.service")),
		rule("/etc/systemd/resolved.conf", "", restart("systemd-resolved.service")),
		rule("/etc/systemd/resolved.conf.d/", "", restart("systemd-resolved.service")),
		rule("/etc/systemd/journald.conf", noteJournal, restart("systemd-journald.service")),
		rule("/etc/systemd/journald.conf.d/", noteJournal, restart("systemd-journald.service")),
		rule("/etc/NetworkManager/conf.d/", noteConnections, restart("NetworkManager.service")),
		rule("/etc/ssh/sshd_config", noteSSH, restart("sshd.service")),
		rule("/etc/ssh/sshd_config.d/", noteSSH, restart("sshd.service")),
		rule("/etc/rsyslog.d/", "", restart("rsyslog.service")),
		rule("/etc/crio/crio.conf", noteContainers, restart(crio)),
		rule("/etc/crio/crio.conf.d/", noteContainers, restart(crio)),
		rule("/etc/containerd/config.toml", noteContainers, restart("containerd.service")),
		rule("/etc/containerd/conf.d/", noteContainers, restart("containerd.service")),
		rule("/etc/systemd/system/kubelet.service.d/", "", daemonReload(restart("kubelet.service"))),
		rule("/etc/systemd/system/crio.service.d/", "", daemonReload(restart(crio))),
		rule("/etc/systemd/system/containerd.service.d/", "", daemonReload(restart("containerd.service"))),
		// read whenever they are needed
		rule("/etc/motd", "", none()),
		rule("/etc/motd.d/", "", none()),
		rule("/etc/issue", "", none()),
		rule("/etc/issue.d/", "", none()),
		rule("/etc/issue.net", "", none()),
		rule("/etc/profile.d/", noteSessions, none()),
		rule("/etc/security/limits.d/", noteSessions, none()),
		rule("/etc/sudoers.d/", "", none()),
		rule("/etc/ssh/ssh_config.d/", "", none()),
		rule("/etc/logrotate.d/", "", none()),
		rule("/etc/NetworkManager/dispatcher.d/", "Scripts run at the next event of an interface.", none()),
	}
}
