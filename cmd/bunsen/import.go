package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/adopt"
)

func importCommand() *cobra.Command {
	var opts adopt.Options
	var out string
	cmd := &cobra.Command{
		Use: "import FILE... --out DIR", Short: "Turn existing MachineConfigs into a config repository", GroupID: "offline",
		Long: `Turn MachineConfigs into a repository of readable Butane documents that render to equal content. FILE holds YAML or JSON
objects, or a whole dump of a cluster; - is standard input. What Butane cannot say stays a MachineConfig; what cannot be
taken is kept below unsupported/ and named. Nothing is lost in silence.

Exit codes: 0 done, 2 invalid input.`,
		Example: `  # From a cluster that has MachineConfigs already
  kubectl get machineconfigs,machineconfigpools,kubeletconfigs,containerruntimeconfigs -o yaml | bunsen import - --out os-config
  bunsen validate os-config

  # One file, one pool, and rendered names that stay what they are
  bunsen import 99-worker-chrony.yaml --pool worker --exact --out os-config`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("import what? Name files with MachineConfigs, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return invalid(errors.New("--out: name a new directory to write the repository to"))
			}
			inputs, err := readInputs(cmd.InOrStdin(), args)
			if err != nil {
				return invalid(err)
			}
			repository, findings, err := adopt.Import(inputs, opts)
			if err != nil {
				return invalid(err)
			}
			for _, f := range findings {
				fmt.Fprintln(cmd.ErrOrStderr(), f)
			}
			if len(repository.Files) == 0 {
				return invalid(errors.New("nothing to import: the files hold no MachineConfig or MachineConfigPool that is taken; " + out + " was not written"))
			}
			if err := writeFiles(out, repository); err != nil {
				return err
			}
			return summarize(cmd.OutOrStdout(), repository, out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the directory to write, new or empty")
	cmd.Flags().StringSliceVar(&opts.Pools, "pool", nil, "take the MachineConfigs of this role only (repeatable)")
	cmd.Flags().BoolVar(&opts.Generated, "generated", false, "take those that a controller generated, too")
	cmd.Flags().BoolVar(&opts.Exact, "exact", false, "keep every encoding as it is, so that rendered names stay the same; less readable")
	return cmd
}

func readInputs(stdin io.Reader, files []string) (inputs []adopt.Input, err error) {
	for _, name := range files {
		var data []byte
		if name == "-" {
			name = "standard input"
			data, err = io.ReadAll(stdin)
		} else {
			data, err = os.ReadFile(name)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		inputs = append(inputs, adopt.Input{Name: name, Data: data})
	}
	return inputs, nil
}

// writeFiles writes below a new or empty directory, and nowhere else. What holds secrets is for its owner only.
func writeFiles(dir string, r adopt.Repository) error {
	root, err := emptyRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		mode := fs.FileMode(0o644)
		if slices.Contains(r.Secrets, name) || strings.HasPrefix(name, "unsupported/") { // what was not read may hold anything
			mode = 0o600
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return invalid(fmt.Errorf("writing %s: %w", name, err))
		}
		if err := root.WriteFile(name, r.Files[name], mode); err != nil {
			return invalid(fmt.Errorf("writing %s: %w", name, err))
		}
	}
	return nil
}

// summarize says what became of the objects; the findings told why.
func summarize(w io.Writer, r adopt.Repository, out string) error {
	skipped, aside := 0, 0
	for _, o := range r.Objects {
		if o.Skipped != "" {
			skipped++
		}
		if o.Aside != "" {
			aside++
		}
	}
	text := fmt.Sprintf("%d of %d objects are in %s, as %d files", len(r.Objects)-skipped, len(r.Objects), out, len(r.Files))
	if aside > 0 {
		text += fmt.Sprintf("; %d more wait in %s/unsupported for a decision", aside, out)
	}
	if _, err := fmt.Fprintf(w, "%s\nnext: bunsen validate %s\n", text, out); err != nil {
		return fmt.Errorf("printing the summary: %w", err)
	}
	return nil
}
