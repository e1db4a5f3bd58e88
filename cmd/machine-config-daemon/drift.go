package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/process"
)

func newDrift() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drift",
		Short: "Print where this machine differs from its config, as the daemon last found",
		Long: `drift reads the results that the daemon of this machine stores below ` + drift.ExportDir +
			`. drift needs no cluster,
changes nothing and may run beside the daemon. ` + "`bunsen drift`" + ` reads the results of all nodes from the cluster.`,
		Example: `  machine-config-daemon drift list
  machine-config-daemon drift show /etc/chrony.conf`,
		Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{Err: errors.New("drift needs a command: drift list, drift show or drift export")}
		},
	}
	list := driftCommand("list", "List what differs", func(w io.Writer, files host.Files, _ string) error {
		known, err := drift.KnownDrift(files)
		if err != nil {
			return err
		}
		return printDrift(w, known)
	})
	list.Example = "  machine-config-daemon drift list"
	show := driftCommand("show PATH", "Print the difference of a path, without secrets",
		func(w io.Writer, files host.Files, path string) error {
			text, err := drift.DiffFound(files, path)
			if err != nil {
				return err
			}
			_, err = io.WriteString(w, text)
			return err
		})
	show.Example = "  machine-config-daemon drift show /etc/chrony.conf"
	export := driftCommand("export PATH", "Print, as JSON, the contents of a path that differs, including secrets",
		func(w io.Writer, files host.Files, path string) error {
			out, err := drift.ExportDiffs(files, path)
			if err != nil {
				return err
			}
			return json.NewEncoder(w).Encode(out)
		})
	export.Long = "export prints one path that has drifted, as JSON with its contents, for `bunsen drift adopt " +
		"--from FILE`. export also\nprints secret contents: a user who can run export can read root's files anyway."
	export.Example = "  machine-config-daemon drift export /etc/chrony.conf > chrony.json"
	cmd.AddCommand(list, show, export)
	return cmd
}

// driftCommand returns a command that reads the files of the machine. If the command's use contains PATH, the command
// needs one argument.
func driftCommand(use, short string, run func(w io.Writer, files host.Files, path string) error) *cobra.Command {
	var dir string
	wantsPath := use != "list"
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: func(_ *cobra.Command, args []string) error {
			if !wantsPath {
				return process.NoArgs(nil, args)
			}
			if len(args) != 1 {
				return &usageError{Err: errors.New("name one path")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := files.Open(dir)
			if err != nil {
				return err
			}
			defer root.Close() //nolint:errcheck // it was only read
			path := ""
			if wantsPath {
				path = args[0]
			}
			return run(cmd.OutOrStdout(), root, path)
		},
	}
	cmd.Flags().StringVar(&dir, "root", "/", "the machine's root file system; in a container, the directory of "+
		"its mount")
	return cmd
}

// printDrift prints a table for users on the machine.
func printDrift(w io.Writer, known v1alpha1.Drift) error {
	if len(known.Items) == 0 {
		_, err := fmt.Fprintln(w, "No drift known.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "PATH\tKIND\tACTION\tSINCE\tWHY") //nolint:errcheck // Flush returns the error
	for _, it := range known.Items {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", it.Name, it.Kind, it.Action,
			it.Since.UTC().Format("2006-01-02T15:04:05Z"), it.Why) //nolint:errcheck // Flush returns the error
	}
	return table.Flush()
}
