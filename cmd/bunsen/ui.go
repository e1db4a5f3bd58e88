package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console"
)

func uiCommand() *cobra.Command {
	var target kube.Target
	var port int
	var noBrowser, readOnly bool
	var repo, addressFile string
	cmd := &cobra.Command{
		Use: "ui", Short: "Open a console about the cluster in the browser", GroupID: "cluster",
		Long: `Open pages about the cluster in the browser. The pages show what bunsen status, why and history print, and update by themselves.

bunsen listens on 127.0.0.1 only, and uses the rights of your kubeconfig. Pages have the actions that these rights allow: pause,
resume, hold, release, retry and suspend, each with a form to confirm it. With --read-only, they have none, and the console changes
nothing on the cluster. The pages load nothing from another server. The printed address contains a token, which works once: the first browser
that opens the address gets a session. If a second browser opens the address, the session ends. The console ends at Ctrl-C.

A program that starts bunsen ui can read the address from a file (--address-file), which only its owner can read. bunsen then does not
print the address.

On Linux, bunsen closes connections of other users of the machine. On other systems they can see the arguments of the program that opens
the browser: choose --no-browser there if others use the machine.

For a console on another machine, forward a port of it with ssh, and use the same port on both ends:

  ssh -L 8710:127.0.0.1:8710 HOST bunsen ui --port 8710 --no-browser`,
		Example: `  bunsen ui
  bunsen ui --context prod
  bunsen ui --repo ~/os-config
  bunsen ui --read-only
  bunsen ui --port 8710 --no-browser`,
		Args: cobra.NoArgs,
	}
	target.AddFlags(cmd)
	cmd.Flags().IntVar(&port, "port", 0, "port on 127.0.0.1; 0: any free port")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address, and do not open a browser")
	cmd.Flags().StringVar(&addressFile, "address-file", "", "write the address into this file instead of printing "+
		"it, and do not open a browser")
	cmd.Flags().StringVar(&repo, "repo", "", "a clone of the source's repository, to show the lines that set each "+
		"item of a node's config")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "pages without actions, for a console that changes nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if port < 0 || port > math.MaxUint16 {
			return cli.Invalid(fmt.Errorf("--port %d: want a port from 1 to %d, or 0 for any free one", port,
				math.MaxUint16))
		}
		cluster := console.Cluster{Name: target.Name(), Repo: repo, ReadOnly: readOnly}
		var err error
		if cluster.Config, err = target.Config(); err != nil {
			return err
		}
		if cluster.Client, err = target.Connect(); err != nil {
			return err
		}
		local, err := console.Listen(cmd.Context(), uint16(port), cluster)
		if err != nil {
			return cli.Invalid(err)
		}
		if addressFile != "" {
			if err := writeAddress(addressFile, local.Address); err != nil {
				return err
			}
			defer os.Remove(addressFile) //nolint:errcheck // the address is of no use any more
		} else {
			announce(cmd, cmp.Or(cluster.Name, cluster.Config.Host), local.Address, noBrowser)
		}
		return local.Serve(cmd.Context())
	}
	return cmd
}

func announce(cmd *cobra.Command, cluster, address string, noBrowser bool) {
	fmt.Fprintf(cmd.OutOrStdout(), "The console of cluster %s: %s\nThe address works once. Ctrl-C ends the console.\n",
		safetext.Line(cluster), address)
	if noBrowser {
		return
	}
	if err := console.OpenBrowser(cmd.Context(), address); err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "no browser was opened, so open the address yourself:",
			safetext.Line(err.Error()))
	}
}

// writeAddress replaces a file by one that only the user can read. A reader never sees an incomplete address.
func writeAddress(file, address string) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".address-")
	if err != nil {
		return cli.Invalid(fmt.Errorf("writing the address of the console: %w", err))
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // after the rename there is none
	_, err = fmt.Fprintln(temporary, address)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return cli.Invalid(fmt.Errorf("writing the address of the console: %w", err))
	}
	return nil
}
