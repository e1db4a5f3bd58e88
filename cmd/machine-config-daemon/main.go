package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/process"
)

// The exit codes of machine-config-daemon.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitRefused is the exit code of the command apply if the machine refuses the config.
	exitRefused = 3
	// exitBetween is the exit code of the command apply if the machine is between two configs.
	exitBetween = 4
)

// version is set by the linker for releases.
var version string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "machine-config-daemon: %v\nSee machine-config-daemon --help.\n", err)
		return exitUsage
	}
	var exit *exitError
	code := exitFailed
	if errors.As(err, &exit) {
		code = exit.code
	}
	fmt.Fprintf(os.Stderr, "machine-config-daemon: %v\n", err)
	return code
}

// usageError is an error in the command line.
type usageError = process.UsageError

// exitError is an error with its own exit code.
type exitError struct {
	code int
	error
}

// Unwrap returns the reason, for errors.Is.
func (e *exitError) Unwrap() error { return e.error }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "machine-config-daemon",
		Short: "Apply the config that the Node object of this machine names",
		Long: `machine-config-daemon watches the Node object of its machine. The annotation machineconfiguration.openshift.io/desiredConfig
names the rendered config that the node should run. If the node runs another config, the daemon compares both configs with the
disk, and requests a drain if the disruption policy demands one. Then the daemon applies the steps with a journal and reports
the result. If a step fails, the daemon rolls back all steps.

  start      runs the daemon
  apply      applies a config to a machine without a cluster
  firstboot  sets up the OS of a new machine before the kubelet starts
  drift      shows where the machine differs from its config
  update     replaces this program by the one that the config names

Exit codes: 0 success, 1 failed, 2 wrong arguments; the command apply has further exit codes.`,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{Err: errors.New("machine-config-daemon needs a command: start, apply, firstboot, " +
				"drift, update or copy")}
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{Err: err} })
	root.AddCommand(entering(newStart()), entering(newApply()), entering(newFirstboot()), newDrift(), newUpdate(),
		newCopy(), &cobra.Command{
			Use: "version", Short: "Print the version", Args: cobra.NoArgs,
			Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), versionText()) },
		})
	return root
}

func versionText() string { return process.Version(version) }

// entering adds a flag to a command that runs in a container. The flag is the mount point of the machine's root. The
// process enters that root before it does anything else.
func entering(cmd *cobra.Command) *cobra.Command {
	var mount string
	var pod bool
	cmd.Flags().StringVar(&mount, "root-mount", "/", "directory of this container at which the machine's root is "+
		"mounted; the process enters this directory and continues there")
	// The process adds this flag to its own arguments after it has entered the machine's root.
	cmd.Flags().BoolVar(&pod, podFlag, false, "the process runs in a pod")
	if err := cmd.Flags().MarkHidden(podFlag); err != nil {
		panic(err) // The code above has defined the flag, so there is no error.
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := linux.Enter(mount, "--root-mount=/", "--"+podFlag); err != nil {
			return err
		}
		pod = pod || filepath.Clean(mount) != "/" // The root of the container may already be the machine's root.
		return run(cmd, args)
	}
	return cmd
}

// podFlag marks a process that has entered the machine's root from a container.
const podFlag = "in-pod"
