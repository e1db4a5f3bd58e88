package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// query is one run of a verb that reads a cluster.
type query struct {
	kube.Target
	client client.Client
	args   []string
	// A program reads the answer: its texts contain times instead of ages.
	timestamps bool
	now        time.Time
}

// answer is the result of a verb, as a text and as data. A nil exit is exit code 0.
type answer struct {
	text string
	data any
	exit error
}

// readsCluster completes a verb that reads a cluster with the flags, the connection and the output forms.
func readsCluster(cmd *cobra.Command, find func(context.Context, query) (answer, error)) *cobra.Command {
	var q query
	var out cli.Output
	q.AddFlags(cmd)
	out.AddFlag(cmd, "", "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// The output form is checked before the connection, so that a wrong form needs no cluster.
		if err := out.Check(); err != nil {
			return err
		}
		var err error
		if q.client, err = q.Connect(); err != nil {
			return err
		}
		q.args, q.timestamps, q.now = args, out.Form != "table", time.Now()
		a, err := find(cmd.Context(), q)
		if err != nil {
			return err
		}
		if err := out.Print(cmd.OutOrStdout(), cli.ForTerminal(safetext.Lines(a.text)), a.data); err != nil {
			return err
		}
		return a.exit
	}
	return cmd
}

// needsArgs rejects fewer than least or more than most arguments.
func needsArgs(least, most int, message string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return errors.New(message)
		}
		return nil
	}
}

func (q query) readAll(ctx context.Context) (fleet.Cluster, error) {
	cluster, err := kube.ReadAll(ctx, q.client)
	cluster.Timestamps = q.timestamps
	return cluster, err
}
