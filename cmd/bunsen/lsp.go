package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
	"github.com/bunsen-os/bunsen/internal/lsp"
)

// streams are those of a process that an editor started.
type streams struct {
	io.Reader
	io.Writer
}

// Close ends the connection: nothing more is read.
func (streams) Close() error { return os.Stdin.Close() }

// codeNoShutdown is the exit code that the protocol asks for.
const codeNoShutdown = 1

func lspCommand() *cobra.Command {
	var largeFiles, stdio bool
	cmd := &cobra.Command{
		Use: "lsp", Short: "Answer an editor about a config repository (language server)", GroupID: "offline",
		Long: `Speak the Language Server Protocol on standard input and output. An editor starts bunsen lsp; you rarely type it yourself. While
you type, bunsen renders the pools with the unsaved texts, and marks what bunsen validate would report, at the lines that
cause it. It shows what a key is, what a change of an item does to nodes and which lines set it. It completes keys and
names, finds definitions and references, and corrects what a message advises.

It reads only the folders that the editor opened, follows no link, runs no program and asks no server. Only the editor
changes files.

Exit codes: 0 the editor shut the server down, or ended the connection. 1 it said exit without shutdown.`,
		Example: `  # Neovim, in an init.lua
  vim.lsp.config('bunsen', {cmd = {'bunsen', 'lsp'}, filetypes = {'yaml', 'butane'}, root_markers = {'pools'}})
  vim.lsp.enable('bunsen')

  # Helix, in languages.toml
  [language-server.bunsen]
  command = "bunsen"
  args = ["lsp"]`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := lsp.Serve(cmd.Context(), streams{cmd.InOrStdin(), cmd.OutOrStdout()}, lsp.Options{
				Version: version, LargeFiles: largeFiles, Ignored: repository.IgnoresAt, Log: cmd.ErrOrStderr(),
				Open: func(folder *os.Root) (lsp.Copy, error) { return repository.OpenCopy(folder) },
			})
			if errors.Is(err, lsp.ErrNoShutdown) {
				return &cli.ExitError{Code: codeNoShutdown, Err: err}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&largeFiles, cli.LargeFilesFlag, false, cli.LargeFilesUsage)
	cmd.Flags().BoolVar(&stdio, "stdio", false, "accepted and ignored, because editors pass it")
	_ = cmd.Flags().MarkHidden("stdio") // The flag exists.
	return cmd
}
