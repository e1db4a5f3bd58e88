package install

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Readiness has the facts about a cluster that an installation depends on.
type Readiness struct {
	// Major and Minor are the version of Kubernetes, as the API server reports it.
	Major, Minor string
	// Admin reports whether the user has all permissions.
	Admin bool
	// MachineConfigOperator reports whether OpenShift's machine-config-operator runs on the cluster.
	MachineConfigOperator bool
	ConsoleCertificate    bool
	// Nodes is how many nodes there are, and ControlPlane how many of them have the label of the control plane.
	Nodes, ControlPlane int
}

// The oldest version of Kubernetes with stable admission policies.
const (
	minMajor = 1
	minMinor = 30
)

// Problem is a problem that prevents an installation, or that a user should know.
type Problem struct {
	Fatal bool   `json:"fatal"`
	What  string `json:"what"`
	Fix   string `json:"fix"`
}

// Check returns the problems of an installation with these options on the cluster.
func (r Readiness) Check(o Options) []Problem {
	var all []Problem
	if r.isOld() {
		all = append(all,
			Problem{true, fmt.Sprintf("the cluster runs Kubernetes %s.%s, and Bunsen needs %d.%d or later for its "+
				"admission policies", r.Major, r.Minor, minMajor, minMinor), "upgrade the cluster"})
	}
	if !r.Admin {
		all = append(all, Problem{
			true, "you may not create kinds, cluster roles and admission policies",
			"use the credentials of a cluster-admin: --kubeconfig or --context",
		})
	}
	if r.MachineConfigOperator {
		all = append(all, Problem{
			true, "the Machine Config Operator runs on this cluster and leads its pools",
			"do not install Bunsen on OpenShift: two controllers would write the same objects",
		})
	}
	if r.Nodes == 0 {
		all = append(all, Problem{false, "the cluster has no nodes yet", "the parts start when nodes join"})
	}
	if r.Nodes > 0 && r.ControlPlane == 0 && !slices.Contains(o.Without, Server) {
		all = append(all, Problem{false, "no node has the label node-role.kubernetes.io/control-plane, so " +
			"machine-config-server has no place to run", "label the nodes that are to run it, or add --without " +
			"machine-config-server: every node can then read every config"})
	}
	if len(o.Console) > 0 && !r.ConsoleCertificate {
		all = append(all, Problem{false, "the Secret " + ConsoleCertificate + " does not exist, so the pod of " +
			Console + " waits for its certificate", "kubectl create secret tls " + ConsoleCertificate + " -n " +
			Namespace + " --cert=FILE --key=FILE"})
	}
	return all
}

// isOld is false for an unknown version.
func (r Readiness) isOld() bool {
	major, err := strconv.Atoi(r.Major)
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(strings.TrimRight(r.Minor, "+"))
	if err != nil {
		return false
	}
	return major < minMajor || major == minMajor && minor < minMinor
}

// Fatal returns the problems that prevent an installation.
func Fatal(all []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(all), func(p Problem) bool { return !p.Fatal })
}

// CheckVersions returns the programs whose version differs from that of the leading controller. Programs of two
// adjacent minor versions work together; a larger difference is fatal. Versions that are not semantic versions are only
// reported.
func CheckVersions(cli string, s v1alpha1.ClusterStatus) []Problem {
	var all []Problem
	if s.Version == "" {
		return nil
	}
	for _, v := range s.Versions {
		if v.Version == s.Version {
			continue
		}
		all = append(all, Problem{
			!areCompatible(v.Version, s.Version), fmt.Sprintf("%d %s: version %s, and the controller has version %s",
				v.Count, v.Component, v.Version, s.Version),
			"finish the upgrade: docs/upgrading.md",
		})
	}
	if cli != s.Version && !areCompatible(cli, s.Version) {
		all = append(all, Problem{false, fmt.Sprintf("this bunsen has version %s, and the controller has version %s",
			cli, s.Version), "use a bunsen of the controller's version"})
	}
	return all
}

// areCompatible reports whether two versions have the same major version and adjacent minor versions, or are unknown.
func areCompatible(a, b string) bool {
	va, err := semver.NewVersion(a)
	if err != nil {
		return true
	}
	vb, err := semver.NewVersion(b)
	if err != nil {
		return true
	}
	return va.Major() == vb.Major() && max(va.Minor(), vb.Minor())-min(va.Minor(), vb.Minor()) <= 1
}
