package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/inspect"
)

func statusCommand() *cobra.Command {
	var t target
	var out output
	var watch bool
	var every time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "One screen: sources, pools, nodes, and why each node waits", GroupID: "cluster",
		Example: `  bunsen status
  bunsen status -w
  bunsen status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && out != "table" {
				return invalid(errors.New("--watch prints the screen: leave out --output"))
			}
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			if watch {
				return follow(cmd.Context(), cmd.OutOrStdout(), c, every)
			}
			cluster, err := read(cmd.Context(), c)
			if err != nil {
				return err
			}
			s := inspect.NewStatus(cluster, time.Now())
			return out.print(cmd.OutOrStdout(), s.Text(), s)
		},
	}
	t.flags(cmd)
	out.flags(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep the screen current until Ctrl-C; without a terminal, print each change")
	cmd.Flags().DurationVar(&every, "every", time.Second, "with --watch: how often to look")
	return cmd
}

// follow prints the status whenever it changes: over itself on a terminal, below itself otherwise. A cluster that
// cannot be reached for a while is said and waited for.
func follow(ctx context.Context, w io.Writer, c client.Client, every time.Duration) error {
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	tick := time.NewTicker(max(every, 100*time.Millisecond))
	defer tick.Stop()
	last := ""
	for {
		text := ""
		cluster, err := read(ctx, c)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			text = "waiting for the cluster: " + err.Error() + "\n"
		default:
			text = inspect.NewStatus(cluster, time.Now()).Text()
		}
		if text != last {
			head := time.Now().UTC().Format(time.RFC3339) + "\n"
			if terminal {
				head = "\x1b[H\x1b[2J"
			}
			if _, err := fmt.Fprintln(w, head+text); err != nil {
				return fmt.Errorf("printing the status: %w", err)
			}
			last = text
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
