package fleet

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Cluster has the objects that a status shows.
type Cluster struct {
	Sources  []v1alpha1.GitSource
	Pools    []mcfgv1.MachineConfigPool
	Nodes    []corev1.Node
	Policies []v1alpha1.RolloutPolicy
	// Rendered are the rendered configs on the cluster; nil if they were not read.
	Rendered []RenderedRow
	// Leases are the Leases of machine-config-controllers and machine-config-servers. LeasesNote is the reason why the
	// Leases were not read. If both are empty, the status shows no controllers and no servers.
	Leases     []coordinationv1.Lease
	LeasesNote string
	// Daemons are the heartbeats of the daemons, by node. Daemons are nil if they were not read; DaemonsNote has the
	// reason.
	Daemons     map[string]v1alpha1.DaemonReport
	DaemonsNote string
	// Denied are the machines whose certificate requests the controller denied. Denied is empty if the certificate
	// requests were not read.
	Denied []DeniedMachine
	// Notifications are what the notifier should send; nil if they were not read.
	Notifications []v1alpha1.Notification
	// Secrets are the published revisions of secrets; zero if they were not read.
	Secrets Secrets
	// If Timestamps is true, reasons contain points in time instead of ages, for programs.
	Timestamps bool
}
