package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"

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
		Args: cobra.ExactArgs(1), ValidArgs: lists,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(lists, args[0]) {
				return invalid(fmt.Errorf("get %q: want one of %s", args[0], strings.Join(lists, ", ")))
			}
			c, err := t.connect()
			if err != nil {
				return err
			}
			if args[0] == "rendered" {
				var all mcfgv1.MachineConfigList
				if err := c.List(cmd.Context(), &all); err != nil {
					return unread("MachineConfigs", err)
				}
				rows := inspect.RenderedRows(all.Items)
				return out.print(cmd.OutOrStdout(), inspect.RenderedTable(rows, time.Now()).String(), rows)
			}
			cluster, err := read(cmd.Context(), c)
			if err != nil {
				return err
			}
			s := inspect.NewStatus(cluster, time.Now())
			switch args[0] {
			case "sources":
				return out.print(cmd.OutOrStdout(), s.SourceTable().String(), s.Sources)
			case "pools":
				return out.print(cmd.OutOrStdout(), s.PoolTable().String(), s.Pools)
			default:
				return out.print(cmd.OutOrStdout(), s.NodeTable().String(), s.Nodes)
			}
		},
	}
	t.flags(cmd)
	out.flags(cmd)
	return cmd
}
