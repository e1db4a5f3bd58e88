package main

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/adopt"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

func importCommand() *cobra.Command {
	var opts adopt.Options
	var out, filesDir, secrets, ci string
	cmd := &cobra.Command{
		Use: "import FILE...|DIR --out DIR", Short: "Turn existing MachineConfigs or Butane files into a config " +
			"repository", GroupID: "offline",
		Long: `Turn MachineConfigs into a repository of readable Butane documents that render to equal content. FILE holds YAML or JSON
objects, or a whole dump of a cluster; - is standard input. An object that Butane cannot express stays a MachineConfig. bunsen
writes objects that a repository cannot contain to unsupported/, and names each such object.

Instead of files, name a directory of Butane files (*.bu, *.butane, *.fcc, *.yaml, *.yml). Each Butane file that no other file
merges is the config of one pool. The name of the Butane file, its directory or its role names the pool, else --pool does.
Butane files that this file merges as compiled configs follow it in the order of merging. bunsen copies local files from
--files-dir.

Contents that only their owner may read, private keys, tokens of known providers and what --secret names become
files below secrets/. A .gitignore leaves them out of git, and also documents with hashes of passwords, until you
decide about each one. bunsen does not find every secret, so read the documents before you push. Beside the documents it
writes a README and the settings of editors, as bunsen init does.

Exit codes: 0 done, 2 invalid input.`,
		Example: `  # From a cluster that has MachineConfigs already
  kubectl get machineconfigs,machineconfigpools,kubeletconfigs,containerruntimeconfigs,imagedigestmirrorsets -o yaml | bunsen import - --out os-config
  bunsen validate os-config

  # One file for one pool, without a change of the names of rendered configs
  bunsen import 99-worker-chrony.yaml --pool worker --exact --out os-config

  # A directory of Butane files that you compile with butane --files-dir butane/files
  bunsen import butane/ --files-dir butane/files --pool worker --out os-config`,
		Args: needsArgs(1, math.MaxInt, "import needs files with MachineConfigs, - for standard input, or a "+
			"directory of Butane files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.Invalid(errors.New("--out: name a new directory to write the repository to"))
			}
			var err error
			if opts.Secrets, err = secretmask.ParsePaths(secrets); err != nil {
				return cli.Invalid(fmt.Errorf("--secret: %w", err))
			}
			made, findings, err := repository.ReadImport(cmd, args, filesDir, opts)
			if err != nil {
				return cli.Invalid(err)
			}
			for _, f := range findings {
				fmt.Fprintln(cmd.ErrOrStderr(), f)
			}
			if len(made.Files) == 0 {
				return cli.Invalid(errors.New("nothing to import: the files have no MachineConfig, MachineConfigPool " +
					"or Butane for a repository; bunsen did not write " + out))
			}
			checks, err := repository.Checks(ci, "")
			if err != nil {
				return err
			}
			documents := len(made.Files)
			if err := adopt.Frame(made.Files, checks); err != nil {
				return err
			}
			if err := repository.WriteFiles(out, made); err != nil {
				return err
			}
			return summarize(cmd.OutOrStdout(), made.Repository, out, documents)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the directory to write, new or empty")
	cmd.Flags().StringVar(&filesDir, "files-dir", "", "for a directory of Butane files: the directory to which local "+
		"files are relative (default: the imported directory)")
	cmd.Flags().StringVar(&ci, "ci", "", "also write the checks of pull requests for github, gitlab or forgejo")
	cmd.Flags().StringSliceVar(&opts.Pools, "pool", nil, "import only MachineConfigs of this role (repeatable); for "+
		"Butane files: the pool of files that name no pool")
	cmd.Flags().StringVar(&secrets, "secret", "", "`PATTERNS` of further paths and units with secrets, with commas "+
		"between them, such as /etc/app/*.conf,/etc/vault/; for Butane files: of local files")
	cmd.Flags().BoolVar(&opts.Generated, "generated", false, "also import MachineConfigs that a controller generated")
	cmd.Flags().BoolVar(&opts.Exact, "exact", false, "keep the encoding of all contents, so that the names of "+
		"rendered configs stay the same; less readable")
	return cmd
}

// summarize prints only what became of each object: the findings have the reasons.
func summarize(w io.Writer, r adopt.Repository, out string, documents int) error {
	skipped, aside := 0, 0
	for _, o := range r.Objects {
		if o.Skipped != "" {
			skipped++
		}
		if o.Aside != "" {
			aside++
		}
	}
	text := fmt.Sprintf("%d of %d objects are in %s, as %d files", len(r.Objects)-skipped, len(r.Objects), out,
		documents)
	if aside > 0 {
		text += fmt.Sprintf("; %d more wait in %s/unsupported for a decision", aside, out)
	}
	if _, err := fmt.Fprintf(w, "%s\nnext: bunsen validate %s\n", text, out); err != nil {
		return fmt.Errorf("printing the summary: %w", err)
	}
	return nil
}
