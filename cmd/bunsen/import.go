package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/adopt"
	"github.com/bunsen-os/bunsen/adopt/tree"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/store"
)

func importCommand() *cobra.Command {
	var opts adopt.Options
	var out, filesDir string
	cmd := &cobra.Command{
		Use: "import FILE...|DIR --out DIR", Short: "Turn existing MachineConfigs or Butane files into a config repository", GroupID: "offline",
		Long: `Turn MachineConfigs into a repository of readable Butane documents that render to equal content. FILE holds YAML or JSON
objects, or a whole dump of a cluster; - is standard input. What Butane cannot say stays a MachineConfig; what cannot be
taken is kept below unsupported/ and named. Nothing is lost in silence.

Instead of files, name a directory of Butane files (*.bu, *.butane, *.fcc, *.yaml, *.yml). Each file that no other file merges
is the config of a pool: of the pool that its name, its directory or its role names, or else of --pool. The Butane files that
it merges as compiled configs follow it in the order of merging. Local files are copied from --files-dir.

Exit codes: 0 done, 2 invalid input.`,
		Example: `  # From a cluster that has MachineConfigs already
  kubectl get machineconfigs,machineconfigpools,kubeletconfigs,containerruntimeconfigs -o yaml | bunsen import - --out os-config
  bunsen validate os-config

  # One file, one pool, and rendered names that stay what they are
  bunsen import 99-worker-chrony.yaml --pool worker --exact --out os-config

  # A directory of Butane files that you compile with butane --files-dir butane/files
  bunsen import butane/ --files-dir butane/files --pool worker --out os-config`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("import what? Name files with MachineConfigs, - for standard input, or a directory of Butane files")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return invalid(errors.New("--out: name a new directory to write the repository to"))
			}
			repository, findings, err := importArguments(cmd, args, filesDir, opts)
			if err != nil {
				return invalid(err)
			}
			for _, f := range findings {
				fmt.Fprintln(cmd.ErrOrStderr(), f)
			}
			if len(repository.Files) == 0 {
				return invalid(errors.New("nothing to import: the files hold no MachineConfig, MachineConfigPool or Butane that is taken; " + out + " was not written"))
			}
			if err := writeFiles(out, repository); err != nil {
				return err
			}
			return summarize(cmd.OutOrStdout(), repository.Repository, out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the directory to write, new or empty")
	cmd.Flags().StringVar(&filesDir, "files-dir", "", "of a directory of Butane files: the directory that local files are relative to (default: the directory itself)")
	cmd.Flags().StringSliceVar(&opts.Pools, "pool", nil, "take the MachineConfigs of this role only (repeatable); of Butane files: the pool of those that name none")
	cmd.Flags().BoolVar(&opts.Generated, "generated", false, "take those that a controller generated, too")
	cmd.Flags().BoolVar(&opts.Exact, "exact", false, "keep every encoding as it is, so that rendered names stay the same; less readable")
	return cmd
}

// importArguments imports files with objects, or one directory of Butane files.
func importArguments(cmd *cobra.Command, args []string, filesDir string, opts adopt.Options) (tree.Output, []adopt.Finding, error) {
	isDir := func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.IsDir()
	}
	switch {
	case len(args) == 1 && isDir(args[0]):
		return importTree(cmd.Context(), args[0], filesDir, opts)
	case slices.ContainsFunc(args, isDir):
		return tree.Output{}, nil, errors.New("a directory of Butane files is imported alone: name one directory, or files with objects")
	case filesDir != "":
		return tree.Output{}, nil, errors.New("--files-dir is for a directory of Butane files, and the arguments are files")
	}
	inputs, err := readInputs(cmd.InOrStdin(), args)
	if err != nil {
		return tree.Output{}, nil, err
	}
	repository, findings, err := adopt.Import(inputs, opts)
	return tree.Output{Repository: repository}, findings, err
}

// importTree imports a directory of Butane files. Findings name the files as the user can open them.
func importTree(ctx context.Context, dir, filesDir string, opts adopt.Options) (tree.Output, []adopt.Finding, error) {
	if len(opts.Pools) > 1 || opts.Exact || opts.Generated {
		return tree.Output{}, nil, errors.New("a directory of Butane files has at most one --pool; --exact and --generated are for MachineConfigs")
	}
	var in tree.Input
	if len(opts.Pools) == 1 {
		in.Pool = opts.Pools[0]
	}
	if bad := validation.IsDNS1123Label(in.Pool); in.Pool != "" && len(bad) > 0 {
		return tree.Output{}, nil, fmt.Errorf("--pool: %q is no name for a pool: use lower-case letters, digits and -", in.Pool)
	}
	for _, part := range []struct {
		dir  string
		into *source.Tree
	}{{dir, &in.Tree}, {cmp.Or(filesDir, dir), &in.Files}} {
		into, done, err := scratch()
		if err != nil {
			return tree.Output{}, nil, err
		}
		defer done()
		if *part.into, err = store.OpenDir(ctx, part.dir, into, source.Limits{}); err != nil {
			return tree.Output{}, nil, fmt.Errorf("reading %s: %w", part.dir, err)
		}
	}
	out, findings, err := tree.Import(in)
	for i := range findings {
		findings[i].At.File = filepath.Join(dir, findings[i].At.File)
	}
	return out, findings, err
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
func writeFiles(dir string, r tree.Output) error {
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
		if slices.Contains(r.Executable, name) {
			mode |= 0o100
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
