package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/schema"
)

func schemaCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "schema [NAME]", Short: "Print JSON schemas of documents and objects, for editors", GroupID: "offline",
		Long: `Print the JSON schema (draft 7) of a kind of file: of the documents of a variant and version of Butane, with Butane's own
descriptions, of a kustomization, or of a kind of object. "butane" is for documents of any variant and version; it refers
to the others by the names of their files. Without a name, bunsen lists the schemas.

An editor completes and checks keys with these schemas. bunsen lsp and bunsen validate check more: what a pool renders to.

Exit codes: 0 success, 2 no schema of this name, or a file cannot be written.`,
		Example: `  bunsen schema
  bunsen schema butane-fcos-1.6.0
  bunsen schema rolloutpolicy > rolloutpolicy.json

  # All of them, as files
  bunsen schema --out .schemas`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case output != "" && len(args) > 0:
				return fmt.Errorf("--out writes all schemas: leave out %q, or print it without --out", args[0])
			case output != "":
				n, err := writeSchemas(output)
				if err != nil {
					return cli.Invalid(err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%d schemas are in %s\n", n, output)
				return nil
			case len(args) == 0:
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(schema.Names(), "\n"))
				return err
			}
			text, err := schemaText(args[0])
			if err != nil {
				return cli.Invalid(err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return schema.Names(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVar(&output, "out", "", "a directory: write all schemas there, each as NAME.json")
	cmd.Flags().StringVar(&output, "output", "", "the same as --out")
	_ = cmd.Flags().MarkHidden("output") // The flag exists.
	return cmd
}

func schemaText(name string) ([]byte, error) {
	node, err := schema.Get(name)
	if err != nil {
		return nil, err
	}
	return node.JSON()
}

// writeSchemas writes only into the directory, and replaces earlier schemas.
func writeSchemas(dir string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("writing schemas: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("writing schemas: %w", err)
	}
	defer root.Close()
	names := schema.Names()
	for _, name := range names {
		text, err := schemaText(name)
		if err == nil {
			err = root.WriteFile(name+".json", text, 0o644)
		}
		if err != nil {
			return 0, fmt.Errorf("writing the schema %s: %w", name, err)
		}
	}
	return len(names), nil
}
