package main

import (
	"errors"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

func clusterOf(pools, nodes string) fleet.Cluster {
	var c fleet.Cluster
	for _, n := range strings.Fields(pools) {
		p := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: n}}
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": n}}
		p.Spec.Configuration.Name = "rendered-" + n + "-2"
		c.Pools = append(c.Pools, p)
	}
	for _, n := range strings.Fields(nodes) {
		c.Nodes = append(c.Nodes,
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"role": "worker"}}})
	}
	return c
}

// TestNames: what a person may call a node or a pool.
func TestNames(t *testing.T) {
	c := clusterOf("worker both", "n1 both")
	for arg, want := range map[string]string{
		"node/n1": "node/n1", "no/n1": "node/n1", "nodes/n1": "node/n1", "n1": "node/n1",
		"pool/worker": "pool/worker", "mcp/worker": "pool/worker", "machineconfigpool/worker": "pool/worker",
		"worker":    "pool/worker",
		"node/both": "node/both", "both": `"both" is the name of several things: write node/both or pool/both`,
		"nobody": `there is no node or pool named "nobody" on the cluster`,
	} {
		got, err := kube.FindSubject(c, arg, kube.KindNode, kube.KindPool)
		var exit *cli.ExitError
		switch {
		case err == nil && got.String() != want:
			t.Errorf("%s is %s, want %s", arg, got, want)
		case err != nil && (!strings.Contains(err.Error(), want) || !errors.As(err, &exit) ||
			exit.Code != cli.ExitInvalid):
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}
