package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/internal/adopt"

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

// importTree imports a directory of Butane files. Its findings have paths that the user can open.
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
