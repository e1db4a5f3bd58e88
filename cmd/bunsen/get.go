package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/inspect"
)

// lists are the words that get takes.
var lists = []string{"sources", "pools", "nodes", "rendered"}

func getCommand() *cobra.Command {
	var t target
	var out output
	cmd := &cobra.Command{
		Use: "get sources|pools|nodes|rendered", Short: "List one kind of thing", GroupID: "cluster",
		Example: `  bunsen get pools
  bunsen get rendered -o json`,
		ValidArgs: lists,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return fmt.Errorf("get needs one of %s, for example: bunsen get pools", strings.Join(lists, ", "))
			case !slices.Contains(lists, args[0]):
				return fmt.Errorf("get knows no list %q; use one of %s", args[0], strings.Join(lists, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			text, rows, err := list(cmd.Context(), c, args[0], out != "table")
			if err != nil {
				return err
			}
			if text == "" {
				text = fmt.Sprintf("No %s here yet.\n", args[0])
			}
			return out.print(cmd.OutOrStdout(), text, rows)
		},
	}
	t.flags(cmd)
	out.flags(cmd)
	return cmd
}

// list reads one list, as a table and as data, whose reasons name points in time instead of ages where timestamps are wanted.
func list(ctx context.Context, c client.Client, what string, timestamps bool) (string, any, error) {
	if what == "rendered" {
		all := &metav1.PartialObjectMetadataList{TypeMeta: configsMeta}
		if err := c.List(ctx, all); err != nil {
			return "", nil, unreadFor(configViewerRole, "MachineConfigs", err)
		}
		rows := inspect.RenderedRows(all.Items)
		return inspect.RenderedTable(rows, time.Now()).String(), rows, nil
	}
	cluster, err := readAll(ctx, c)
	if err != nil {
		return "", nil, err
	}
	cluster.Timestamps = timestamps
	s := inspect.NewStatus(cluster, time.Now())
	switch what {
	case "sources":
		return s.SourceTable().String(), s.Sources, nil
	case "pools":
		return s.PoolTable().String(), s.Pools, nil
	default:
		return s.NodeTable().String(), s.AllNodes(), nil
	}
}
