package repository

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

	"github.com/bunsen-os/bunsen/internal/adopt"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
)

// ReadImport imports files with objects, or one directory of Butane files.
func ReadImport(cmd *cobra.Command, args []string, filesDir string,
	opts adopt.Options,
) (adopt.TreeOutput, []adopt.Finding, error) {
	isDir := func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.IsDir()
	}
	switch {
	case len(args) == 1 && isDir(args[0]):
		return importTree(cmd.Context(), args[0], filesDir, opts)
	case slices.ContainsFunc(args, isDir):
		return adopt.TreeOutput{}, nil, errors.New("a directory of Butane files is imported alone: name one " +
			"directory, or " +
			"files with objects")
	case filesDir != "":
		return adopt.TreeOutput{}, nil, errors.New("--files-dir is for a directory of Butane files, and the " +
			"arguments " +
			"are files")
	}
	inputs, err := readInputs(cmd.InOrStdin(), args)
	if err != nil {
		return adopt.TreeOutput{}, nil, err
	}
	repository, findings, err := adopt.Import(inputs, opts)
	return adopt.TreeOutput{Repository: repository}, findings, err
}

// importTree returns findings with paths that the user can open.
func importTree(ctx context.Context, dir, filesDir string, opts adopt.Options) (adopt.TreeOutput, []adopt.Finding,
	error,
) {
	if len(opts.Pools) > 1 || opts.Exact || opts.Generated {
		return adopt.TreeOutput{}, nil, errors.New("a directory of Butane files has at most one --pool; --exact and " +
			"--generated are for MachineConfigs")
	}
	in := adopt.TreeInput{Secrets: opts.Secrets}
	if len(opts.Pools) == 1 {
		in.Pool = opts.Pools[0]
	}
	if bad := validation.IsDNS1123Label(in.Pool); in.Pool != "" && len(bad) > 0 {
		return adopt.TreeOutput{}, nil, fmt.Errorf("--pool: %q is no name for a pool: use lower-case letters, "+
			"digits and -",
			in.Pool)
	}
	for _, part := range []struct {
		dir  string
		into *source.Tree
	}{{dir, &in.Tree}, {cmp.Or(filesDir, dir), &in.Files}} {
		into, done, err := tempDir()
		if err != nil {
			return adopt.TreeOutput{}, nil, err
		}
		defer done()
		if *part.into, err = repository.OpenDir(ctx, part.dir, into, nil, source.Limits{}); err != nil {
			return adopt.TreeOutput{}, nil, fmt.Errorf("reading %s: %w", part.dir, err)
		}
	}
	out, findings, err := adopt.ImportTree(in)
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

// WriteFiles writes only below a new or empty directory. Files with secrets are for their owner alone, and .gitignore
// names them, so that no commit gets them before the user decides.
func WriteFiles(dir string, r adopt.TreeOutput) error {
	root, err := emptyRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		mode := fs.FileMode(0o644)
		if slices.Contains(r.Secrets, name) {
			mode = 0o600
		}
		if slices.Contains(r.Executable, name) {
			mode |= 0o100
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return cli.Invalid(fmt.Errorf("writing %s: %w", name, err))
		}
		if err := root.WriteFile(name, r.Files[name], mode); err != nil {
			return cli.Invalid(fmt.Errorf("writing %s: %w", name, err))
		}
	}
	if len(r.Secrets) == 0 {
		return nil
	}
	if err := root.WriteFile(".gitignore", ignoreFile(r.Secrets), 0o644); err != nil {
		return cli.Invalid(fmt.Errorf("writing .gitignore: %w", err))
	}
	return nil
}

// ignoreFile names files with secrets in a .gitignore. The names have no special characters: import makes them.
func ignoreFile(secrets []string) []byte {
	var out strings.Builder
	out.WriteString("# These files may have secrets. Encrypt each one with `bunsen secret encrypt FILE`, or " +
		"decide that\n" +
		"# whoever reads the repository may read it. Then remove its line.\n")
	for _, name := range secrets {
		out.WriteString("/" + name + "\n")
	}
	return []byte(out.String())
}
