package policy

import "slices"

// crio is the service that reads the container configuration.
const crio = "crio.service"

// RegistriesConf is the file whose rule is Special: what its change costs depends on what changed in it.
const RegistriesConf = "/etc/containers/registries.conf"

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

// Default returns the policy of a cluster without rules of its own. The caller owns it. docs/disruption.md is this
// table, written by the tests.
func Default() Policy {
	const anchors = "/etc/pki/ca-trust/source/anchors/"
	return Policy{
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
			{"/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf", daemonReload(restart("kubelet.service"))},
			{"/etc/iri-registry", restart("iri-registry.service")},
			{"/usr/local/bin/load-registry-image.sh", restart("iri-registry.service")},
			{anchors + "iri-root-ca.crt", restart("coreos-update-ca-trust.service")},
		},
		Units: []Rule{
			{"iri-registry.service", daemonReload(restart("iri-registry.service"))},
		},
		SSHKey: none(),
	}
}

// with returns the rules with r replacing the one of its name, or added at the end.
func with(rules []Rule, r Rule) []Rule {
	if i := slices.IndexFunc(rules, func(o Rule) bool { return o.Name == r.Name }); i >= 0 {
		rules[i] = r
		return rules
	}
	return append(rules, r)
}
