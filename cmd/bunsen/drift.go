package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/inspect"
)

func driftCommand() *cobra.Command {
	var t target
	var out output
	var exitCode bool
	cmd := &cobra.Command{
		Use: "drift [NODE]", Short: "What of the nodes is not as their configs have it", GroupID: "cluster",
		Long: `List what somebody changed on nodes that a config manages: files, links, directories, units, users, kernel arguments. The
daemons report it on their Nodes, without contents. What is done about it is a DriftPolicy's to say: ACTION is Degrade,
Repair or Report; what is ignored is not listed.

A node whose daemon or kubelet does not report is listed as not known.

Exit codes: 0 no drift, 1 drift, 2 invalid input, 3 cluster out of reach, 5 no drift is reported but some nodes are not known.`,
		Example: `  bunsen drift
  bunsen drift worker-07 -o json
  bunsen drift show node/worker-07 /etc/chrony.conf
  bunsen drift adopt node/worker-07 /etc/chrony.conf -o ~/os-config`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("drift of which node? Name one, or none for all; `bunsen drift show node/NAME PATH` shows one difference")
			}
			return nil
		},
		ValidArgsFunction: t.completeNodes,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			d, err := readDrift(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			if err := out.print(cmd.OutOrStdout(), harmless(d.Text(time.Now())), d); err != nil {
				return err
			}
			switch {
			case d.Any() && exitCode:
				return &exitError{code: exitDifferent}
			case len(d.Unknown) > 0 && exitCode:
				return &exitError{code: exitBlocked}
			}
			return nil
		},
	}
	t.flags(cmd)
	out.flags(cmd)
	cmd.Flags().BoolVar(&exitCode, "exit-code", true, "exit with 1 where there is drift, with 5 where nodes are not known")
	cmd.AddCommand(driftShowCommand(), driftAdoptCommand())
	return cmd
}

// readDrift reads the reports of all nodes, or of the one that is named as NODE or node/NODE.
func readDrift(ctx context.Context, c client.Client, args []string) (inspect.Drift, error) {
	if len(args) == 0 {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return inspect.Drift{}, unread("Nodes", err)
		}
		pools := &mcfgv1.MachineConfigPoolList{}
		if err := c.List(ctx, pools); err != nil {
			return inspect.Drift{}, unread("MachineConfigPools", err)
		}
		daemons, _, err := readDaemons(ctx, c)
		return inspect.ClusterDrift(inspect.Cluster{Nodes: nodes.Items, Pools: pools.Items, Daemons: daemons}, time.Now()), err
	}
	name := strings.TrimPrefix(args[0], "node/")
	var node corev1.Node
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return inspect.Drift{}, unread("node/"+name, err)
	}
	daemons, err := readDaemon(ctx, c, name)
	return inspect.NewDrift([]corev1.Node{node}, daemons, time.Now()), err
}

// onePath checks the arguments of the verbs that are about one thing on one node.
func onePath(verb string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("%s what? Name a node and what differs there, as in: bunsen drift %s node/worker-07 /etc/chrony.conf", verb, verb)
		}
		return nil
	}
}

func driftShowCommand() *cobra.Command {
	var t target
	var out output
	cmd := &cobra.Command{
		Use: "show node/NAME PATH", Short: "One difference: both sides, since when, and the lines that differ",
		Long: `Show what is known of one difference. The lines that differ never leave the node but to whoever may run a command in the
daemon's pod there; contents that are secret are hidden even then. Where the daemon runs as a service of the node instead,
the command to run on the node is printed.

Exit codes: 0 shown, 2 invalid input or no such drift, 3 cluster out of reach.`,
		Example: `  bunsen drift show node/worker-07 /etc/chrony.conf
  bunsen drift show node/worker-07 chronyd.service -o yaml`,
		Args: onePath("show"), ValidArgsFunction: t.completeNodes,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			row, err := findDrift(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			shown := shownDrift{DriftRow: row}
			if row.Actual != nil && strings.HasPrefix(row.Name, "/") {
				shown.Diff, shown.Note = t.diffOf(cmd.Context(), c, row)
			}
			return out.print(cmd.OutOrStdout(), harmless(shown.text(time.Now())), shown)
		},
	}
	t.flags(cmd)
	out.flags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs["drift"], cobra.ShellCompDirectiveNoFileComp)) // it fails twice only
	return cmd
}

// shownDrift is what show prints.
type shownDrift struct {
	inspect.DriftRow `json:",inline"`
	// Diff is the redacted difference from the node, Note where to find it instead.
	Diff string `json:"diff,omitempty"`
	Note string `json:"note,omitempty"`
}

func (s shownDrift) text(now time.Time) string {
	text := s.DriftRow.Text(now)
	if s.Diff != "" {
		text += "\n" + s.Diff
	}
	if s.Note != "" {
		text += "\n" + s.Note + "\n"
	}
	return text
}

// findDrift finds what a node reports about a path, unit or account.
func findDrift(ctx context.Context, c client.Client, args []string) (inspect.DriftRow, error) {
	d, err := readDrift(ctx, c, args[:1])
	if err != nil {
		return inspect.DriftRow{}, err
	}
	row, err := d.Find(strings.TrimPrefix(args[0], "node/"), args[1])
	if err != nil {
		return row, invalid(err)
	}
	return row, nil
}

// diffOf fetches the redacted difference, or says how to see it.
func (t *target) diffOf(ctx context.Context, c client.Client, row inspect.DriftRow) (diff, note string) {
	command := []string{"drift", "show", row.Name}
	text, err := t.onNode(ctx, c, row.Node, command...)
	if err == nil {
		return string(text), ""
	}
	return "", fmt.Sprintf("The lines that differ are on the node only (%v). On %s, as root:\n  machine-config-daemon %s", err, row.Node, shellWords(command))
}

// harmless is safetext.Lines: text from a cluster or a repository that neither a terminal nor the runner of a CI job acts on.
func harmless(text string) string { return safetext.Lines(text) }

// shellWords writes a command so that a shell reads these words again.
func shellWords(words []string) string {
	var out []string
	for _, w := range words {
		if strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-@:+=,", r)
		}) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// completeNodes offers the nodes that report drift, then what differs there.
func (t *target) completeNodes(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const quiet = cobra.ShellCompDirectiveNoFileComp
	subcommand := cmd.Name() != "drift"
	if len(args) > 1 || len(args) == 1 && !subcommand {
		return nil, quiet
	}
	c, err := t.connect("table")
	if err != nil {
		return nil, quiet
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
	defer cancel()
	d, err := readDrift(ctx, c, args)
	if err != nil {
		return nil, quiet
	}
	var offers []cobra.Completion
	for _, r := range d.Rows {
		offer := cobra.Completion("node/" + r.Node)
		if len(args) == 1 {
			offer = cobra.Completion(r.Name)
		}
		if len(offers) == 0 || offers[len(offers)-1] != offer {
			offers = append(offers, offer)
		}
	}
	return offers, quiet
}
