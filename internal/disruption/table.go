package disruption

import (
	"slices"

	"github.com/bunsen-os/bunsen/internal/distribution"
)

const crio = "crio.service"

// RegistriesConf is a file whose rule is Special: the actions depend on which part changed. Its drop-ins have the same
// rule.
const RegistriesConf = RegistriesFile

func none() []Action                 { return []Action{{Type: ActionNone}} }
func reboot() []Action               { return []Action{{Type: ActionReboot}} }
func reload(service string) []Action { return []Action{{ActionReload, service}} }
func restart(services ...string) (list []Action) {
	for _, s := range services {
		list = append(list, Action{ActionRestart, s})
	}
	return list
}

func daemonReload(then []Action) []Action {
	return append([]Action{{Type: ActionDaemonReload}}, then...)
}

// Default returns the policy of a cluster without its own rules. The caller may change it. A test writes the same table
// to docs/disruption.md.
func Default() Policy {
	const anchors = "/etc/pki/ca-trust/source/anchors/"
	p := Policy{
		Files: []Rule{
			{"/var/lib/kubelet/config.json", none()},
			{"/etc/machine-config-daemon/no-reboot/containers-gpg.pub", reload(crio)},
			{"/etc/containers/policy.json", reload(crio)},
			{RegistriesConf, []Action{{Type: ActionSpecial}}},
			{"/etc/containers/registries.d", reload(crio)},
			{"/etc/crio/policies", reload(crio)},
			{"/etc/nmstate/openshift", none()},
			{anchors + "openshift-config-user-ca-bundle.crt", restart("coreos-update-ca-trust.service", crio)},
			{"/etc/kubernetes/credential-providers", restart("kubelet.service")},
			{
				"/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
				daemonReload(restart("kubelet.service")),
			},
			{"/etc/iri-registry", restart("iri-registry.service")},
			{"/usr/local/bin/load-registry-image.sh", restart("iri-registry.service")},
			{anchors + "iri-root-ca.crt", restart("coreos-update-ca-trust.service")},
			{RegistriesDropIns, []Action{{Type: ActionSpecial}}}, // documents about registries become files there
			// The daemon restarts by itself when its binary or its unit was replaced.
			{"/etc/machine-config-daemon/binary.json", restart("machine-config-daemon-update.service")},
			{"/usr/local/bin/machine-config-daemon", none()},
			{"/opt/bin/machine-config-daemon", none()},
		},
		Units: []Rule{
			{"iri-registry.service", daemonReload(restart("iri-registry.service"))},
			{"machine-config-daemon.service", daemonReload(nil)},
			{"machine-config-daemon-firstboot.service", daemonReload(nil)},
			{"machine-config-daemon-update.service", daemonReload(nil)},
		},
		SSHKey: none(),
	}
	for _, k := range distribution.Distributions() {
		for _, live := range k.Live {
			actions := none()
			if live.Restart {
				actions = restart(k.Units...) // A node has one of the units, and the daemon skips the other units.
			}
			p.Files = append(p.Files, Rule{live.Path, actions})
		}
	}
	return p
}

// with returns the rules with r, which replaces one of the same name.
func with(rules []Rule, r Rule) []Rule {
	if i := slices.IndexFunc(rules, func(o Rule) bool { return o.Name == r.Name }); i >= 0 {
		rules[i] = r
		return rules
	}
	return append(rules, r)
}
