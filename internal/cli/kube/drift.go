package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// ReadDrift reads the reports of all nodes, or of the one node that the argument names as NODE or node/NODE.
func ReadDrift(ctx context.Context, c client.Client, args []string) (inspect.DriftReport, error) {
	if len(args) == 0 {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return inspect.DriftReport{}, ReadError("Nodes", err)
		}
		pools := &mcfgv1.MachineConfigPoolList{}
		if err := c.List(ctx, pools); err != nil {
			return inspect.DriftReport{}, ReadError("MachineConfigPools", err)
		}
		daemons, _, err := ReadDaemons(ctx, c)
		return inspect.NewClusterDrift(fleet.Cluster{Nodes: nodes.Items, Pools: pools.Items, Daemons: daemons},
				time.Now()),
			err
	}
	name := strings.TrimPrefix(args[0], "node/")
	var node corev1.Node
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return inspect.DriftReport{}, ReadError("node/"+name, err)
	}
	daemons, err := ReadDaemon(ctx, c, name)
	return inspect.NewDriftReport([]corev1.Node{node}, daemons, time.Now()), err
}

// ShownDrift is the output of the verb drift show.
type ShownDrift struct {
	inspect.DriftRow `json:",inline"`
	// Diff is the redacted difference from the node. Note says where to find the difference if there is no Diff.
	Diff string `json:"diff,omitempty"`
	Note string `json:"note,omitempty"`
}

// Text prints the difference and its lines.
func (s ShownDrift) Text(now time.Time) string {
	text := s.DriftRow.Text(now)
	if s.Diff != "" {
		text += "\n" + s.Diff
	}
	if s.Note != "" {
		text += "\n" + s.Note + "\n"
	}
	return text
}

// FindDrift finds the drift that a node reports for a path, unit or account.
func FindDrift(ctx context.Context, c client.Client, args []string) (inspect.DriftRow, error) {
	d, err := ReadDrift(ctx, c, args[:1])
	if err != nil {
		return inspect.DriftRow{}, err
	}
	row, err := d.Find(strings.TrimPrefix(args[0], "node/"), args[1])
	if err != nil {
		return row, cli.Invalid(err)
	}
	return row, nil
}

// DriftDiff reads the redacted difference from the node, or returns a note that says how to see it.
func DriftDiff(ctx context.Context, t *Target, c client.Client, row inspect.DriftRow) (diff, note string) {
	command := []string{"drift", "show", row.Name}
	text, manual, err := runOnNode(ctx, t, c, row.Node, command...)
	if err == nil {
		return string(text), ""
	}
	return "", fmt.Sprintf("The lines that differ are on the node only (%v). Run this %s", err, manual)
}

// CompleteDrift offers the nodes that report drift, and then the drifted paths of a node.
func CompleteDrift(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	most := 1
	if cmd.Name() != "drift" {
		most = 2
	}
	return Complete(most, func(ctx context.Context, c client.Client, args []string) ([]string, error) {
		d, err := ReadDrift(ctx, c, args)
		var offers []string
		for _, r := range d.Rows {
			if len(args) == 1 {
				offers = append(offers, r.Name)
			} else {
				offers = append(offers, "node/"+r.Node)
			}
		}
		return slices.Compact(offers), err
	})(cmd, args, typed)
}
