package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx))
}

// run returns the exit code. An invalid command line, which cobra reports, is a usage error.
func run(ctx context.Context) int {
	cmd, err := root().ExecuteContextC(ctx)
	var exit *cli.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		fmt.Fprintf(os.Stderr, "%s\nSee: %s --help\n", safetext.Lines("error: "+err.Error()), cmd.CommandPath())
		return cli.ExitInvalid
	case exit.Err != nil:
		fmt.Fprintln(os.Stderr, safetext.Lines("error: "+err.Error()))
	}
	return exit.Code
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bunsen",
		Short: "Manage the operating system of a cluster's nodes from git",
		Long: `Bunsen keeps the operating system of a cluster's nodes in git, as Butane documents. Begin with what you want to know:

  Is all well? What needs me?           bunsen status
  Why does it wait, and what helps?     bunsen why [pool/NAME | node/NAME]
  What will a commit change or reboot?  bunsen diff --cluster COMMIT~ COMMIT
  Who changed this file on a node?      bunsen trace node/NAME PATH
  What happened last night?             bunsen history --since 1d

Commands without a cluster run the controller's functions, so they print what will happen on the cluster. The others use the cluster
of your kubeconfig.

Exit codes:
  0  success
  1  differences found (diff, drift), or a newer release (version --check)
  2  invalid input or usage
  3  cluster, registry or service unreachable
  4  not ready in time (install, uninstall)
  5  blocked (status, why)
  6  degraded (status, why, check)`,
		Version: version, SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if slices.Contains(offline, cmd.Name()) {
				return nil
			}
			return addCertificates()
		},
	}
	cmd.AddGroup(&cobra.Group{ID: "offline", Title: "Without a cluster:"},
		&cobra.Group{ID: "cluster", Title: "Reading a cluster:"},
		&cobra.Group{ID: "act", Title: "Controlling a rollout:"}, &cobra.Group{ID: "machines", Title: "New machines:"},
		&cobra.Group{ID: "install", Title: "Installing:"})
	cmd.AddCommand(validateCommand(), buildCommand(), diffCommand(), explainCommand(), initCommand(), importCommand(),
		repository.SecretCommand(), commentCommand(), repository.HashCommand(), pushCommand(), schemaCommand(),
		lspCommand(),
		statusCommand(), uiCommand(), consoleCommand(), whyCommand(), historyCommand(), getCommand(), traceCommand(),
		driftCommand(),
		pauseCommand(), suspendCommand(), resumeCommand(), retryCommand(), holdCommand(), releaseCommand(),
		rollbackCommand(),
		tokenCommand(), pointerCommand(),
		installCommand(), checkCommand(), uninstallCommand(), supportBundleCommand(), versionCommand())
	cli.WrapHelp(cmd)
	cli.RefuseEmpty(cmd)
	cmd.SetErr(safetext.NewWriter(os.Stderr)) // a CI runner also reads commands from standard error
	return cmd
}

// offline are verbs that open no connection: they start without the certificates of all authorities.
var offline = []string{"build", "validate", "explain", "init", "import", "schema", "lsp", "completion", "help"}

// addCertificates adds CA certificates for a machine or an image that has none, as
// golang.org/x/crypto/x509roots/fallback does at the start of each program.
func addCertificates() error {
	pool := x509.NewCertPool()
	for c := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(c.Certificate)
		switch {
		case err != nil:
			return fmt.Errorf("reading the CA certificates of this program: %w", err)
		case c.Constraint == nil:
			pool.AddCert(certificate)
		default:
			pool.AddCertWithConstraint(certificate, c.Constraint)
		}
	}
	x509.SetFallbackRoots(pool)
	return nil
}
