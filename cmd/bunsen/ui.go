package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console"
)

func uiCommand() *cobra.Command {
	var target kube.Target
	var port uint16
	var noBrowser bool
	var repo string
	cmd := &cobra.Command{
		Use: "ui", Short: "Open a console about the cluster in the browser", GroupID: "cluster",
		Long: `Open pages about the cluster in the browser: what status, why and history print, kept current.

bunsen listens on 127.0.0.1 only, and reads the cluster with the rights of your kubeconfig. It changes nothing. The pages need no
other server. The printed address contains a token, which works once: the first browser that opens it gets a session. If the address
is opened again without that session, the session ends. The console ends at Ctrl-C.

On Linux, bunsen closes connections of other users of the machine. On other systems they can see the arguments of the program that opens
the browser: choose --no-browser there if others use the machine.

For a console on another machine, forward a port of it with ssh, and use the same port on both ends:

  ssh -L 8710:127.0.0.1:8710 HOST bunsen ui --port 8710 --no-browser`,
		Example: `  bunsen ui
  bunsen ui --context prod
  bunsen ui --repo ~/os-config
  bunsen ui --port 8710 --no-browser`,
		Args: cobra.NoArgs,
	}
	target.AddFlags(cmd)
	cmd.Flags().Uint16Var(&port, "port", 0, "port on 127.0.0.1; 0: any free port")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address, and do not open a browser")
	cmd.Flags().StringVar(&repo, "repo", "", "a clone of the source's repository, to show the lines that set each item of a node's config")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cluster := console.Cluster{Name: target.Name(), Repo: repo}
		var err error
		if cluster.Config, err = target.Config(); err != nil {
			return err
		}
		if cluster.Client, err = target.Connect(); err != nil {
			return err
		}
		local, err := console.Listen(cmd.Context(), port, cluster)
		if err != nil {
			return cli.Invalid(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "The console of cluster %s: %s\nThe address works once. Ctrl-C ends the console.\n", safetext.Line(cmp.Or(cluster.Name, cluster.Config.Host)), local.Address)
		if !noBrowser {
			if err := console.OpenBrowser(cmd.Context(), local.Address); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "no browser was opened, so open the address yourself:", safetext.Line(err.Error()))
			}
		}
		return local.Serve(cmd.Context())
	}
	return cmd
}
