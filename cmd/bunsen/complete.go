package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// outputs are the forms that each verb prints, for the shell to offer.
var outputs = map[string][]string{
	"build": {"mc", "json", "ignition", "tree"}, "diff": {"text", "markdown", "json"}, "validate": {"text", "json", "sarif", "github", "gitlab"},
	"explain": {"table", "json", "yaml"}, "status": {"table", "json", "yaml"}, "get": {"table", "json", "yaml"}, "trace": {"table", "json", "yaml"},
	"drift": {"table", "json", "yaml"}, "why": {"table", "json", "yaml"}, "history": {"table", "json", "yaml"},
}

// completeFlags lets a shell offer the values of flags.
func completeFlags(root *cobra.Command) {
	offer := func(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, values) // it fails for a flag that there is not, or twice
		}
	}
	for _, cmd := range root.Commands() {
		offer(cmd, "output", cobra.FixedCompletions(outputs[cmd.Name()], cobra.ShellCompDirectiveNoFileComp))
		offer(cmd, "host", cobra.FixedCompletions([]string{"github", "gitlab", "gitea"}, cobra.ShellCompDirectiveNoFileComp))
		if cmd.Name() != "import" { // its repository is not there yet
			offer(cmd, "pool", completePools)
		}
	}
}

// completePools offers the folders of pools/ where the verb looks.
func completePools(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir := "."
	if cmd.Name() == "build" {
		dir = directory(args)
	}
	for _, flag := range []string{"repo", "path"} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			dir = filepath.Join(dir, f.Value.String())
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "pools"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
