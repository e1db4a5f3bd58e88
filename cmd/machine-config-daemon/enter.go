package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/linux"
)

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
