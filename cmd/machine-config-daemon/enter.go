package main

import (
	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/host/linux"
)

// entering gives a command the flag by which it is run in a container: the machine's root is mounted somewhere, and the
// process goes on inside of it, before anything else.
func entering(cmd *cobra.Command) *cobra.Command {
	var mount string
	cmd.Flags().StringVar(&mount, "root-mount", "/", "where the machine's root is mounted in this container; the process goes on inside of it")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := linux.Enter(mount, "--root-mount=/"); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}
