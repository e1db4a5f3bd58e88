package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

func getCommand() *cobra.Command {
	lists := []string{"sources", "pools", "nodes", "rendered"}
	cmd := &cobra.Command{
		Use: "get sources|pools|nodes|rendered", Short: "List the sources, pools, nodes or rendered configs of the " +
			"cluster", GroupID: "cluster",
		Example: `  bunsen get pools
  bunsen get rendered -o json`,
		ValidArgs: lists,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				args[0] = listed(args[0])
			}
			switch {
			case len(args) != 1:
				return fmt.Errorf("get needs one of %s, for example: bunsen get pools", strings.Join(lists, ", "))
			case !slices.Contains(lists, args[0]):
				return fmt.Errorf("get cannot list %q; use one of %s", args[0], strings.Join(lists, ", "))
			}
			return nil
		},
	}
	return readsCluster(cmd, func(ctx context.Context, q query) (answer, error) {
		a, err := list(ctx, q)
		if a.text == "" {
			a.text = fmt.Sprintf("The cluster has no %s yet.\n", q.args[0])
		}
		return a, err
	})
}

// listed returns the name of a list that a user means by another name, such as the singular or kubectl's.
func listed(name string) string {
	switch name {
	case "source", "gitsource", "gitsources":
		return "sources"
	case "pool", "mcp", "machineconfigpool", "machineconfigpools":
		return "pools"
	case "node", "no":
		return "nodes"
	case "config", "configs":
		return "rendered"
	}
	return name
}

func list(ctx context.Context, q query) (answer, error) {
	if q.args[0] == "rendered" {
		all := &metav1.PartialObjectMetadataList{TypeMeta: kube.ConfigsMeta}
		if err := q.client.List(ctx, all); err != nil {
			return answer{}, kube.ReadErrorFor(kube.ConfigViewerRole, "MachineConfigs", err)
		}
		rows := fleet.RenderedRows(all.Items)
		return answer{text: fleet.RenderedText(rows, q.now), data: rows}, nil
	}
	cluster, err := q.readAll(ctx)
	if err != nil {
		return answer{}, err
	}
	s := inspect.NewStatus(cluster, q.now)
	switch q.args[0] {
	case "sources":
		return answer{text: s.SourceTable().String(), data: s.Sources}, nil
	case "pools":
		return answer{text: s.PoolTable().String(), data: s.Pools}, nil
	}
	return answer{text: s.NodeTable().String(), data: s.AllNodes()}, nil
}
