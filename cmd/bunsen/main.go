package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // maintenance windows have time zones, and a machine need not

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// version is set by the linker.
var version = "dev"

// Exit codes, the same for every verb (docs/cli.md).
const (
	exitDifferent   = 1
	exitInvalid     = 2
	exitUnreachable = 3
	// 4 is kept for commands that wait.
	exitBlocked  = 5
	exitDegraded = 6
)

// exitError carries an exit code; its error may be nil where everything is said already.
type exitError struct {
	code int
	err  error
}

// Error returns the text of the error inside, if there is one.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the error inside.
func (e *exitError) Unwrap() error { return e.err }

func invalid(err error) error     { return &exitError{exitInvalid, err} }
func unreachable(err error) error { return &exitError{exitUnreachable, err} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx))
}

// run returns the exit code. What cobra finds wrong with a command line is a usage error.
func run(ctx context.Context) int {
	cmd, err := root().ExecuteContextC(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		fmt.Fprintf(os.Stderr, "%s\nSee: %s --help\n", harmless("error: "+err.Error()), cmd.CommandPath())
		return exitInvalid
	case exit.err != nil:
		fmt.Fprintln(os.Stderr, harmless("error: "+err.Error()))
	}
	return exit.code
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bunsen",
		Short: "The operating system of a cluster's nodes, from git",
		Long: `Bunsen keeps the operating system of a cluster's nodes in git, as Butane documents.

validate, build, diff, explain and import need no cluster: they run the functions that the controllers run, so what they
print is what will happen. comment tells a pull request. status, why, history, get, trace and drift read the cluster of your
kubeconfig. pause, resume and retry steer a rollout there. token and pointer let new machines in.

Exit codes: 0 fine; 1 differences found (diff, drift); 2 invalid input or usage; 3 cluster or service out of reach;
5 blocked, 6 degraded (why).`,
		Version: version, SilenceUsage: true, SilenceErrors: true,
	}
	cmd.AddGroup(&cobra.Group{ID: "offline", Title: "Without a cluster:"}, &cobra.Group{ID: "cluster", Title: "Reading a cluster:"},
		&cobra.Group{ID: "act", Title: "Steering a rollout:"}, &cobra.Group{ID: "machines", Title: "New machines:"})
	cmd.AddCommand(validateCommand(), buildCommand(), diffCommand(), explainCommand(), importCommand(), commentCommand(),
		statusCommand(), whyCommand(), historyCommand(), getCommand(), traceCommand(), driftCommand(),
		pauseCommand(), resumeCommand(), retryCommand(), tokenCommand(), pointerCommand(), versionCommand())
	completeFlags(cmd)
	cmd.SetErr(safetext.NewWriter(os.Stderr)) // a runner reads commands from the error output, too
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "bunsen", version) },
	}
}

// colour tells whether standard output is a terminal that wants colours (https://no-color.org).
func colour() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(os.Stdout.Fd()))
}
