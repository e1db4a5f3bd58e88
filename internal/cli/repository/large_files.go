package repository

import (
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/transpile"
)

// LargeFiles returns the files of the content store that the configs of pools name, each once.
func LargeFiles(res transpile.Result, pools []review.PoolRendering) (all []machineconfig.LargeFile) {
	known := map[string]machineconfig.LargeFile{}
	for _, f := range transpile.Contents(res.Fragments) {
		known[f.Hash] = f
	}
	for _, p := range pools {
		for _, f := range p.Rendered.Contents {
			known[f.Hash] = f
		}
	}
	for _, p := range pools {
		for _, r := range machineconfig.RemoteFiles(p.Rendered.Config) {
			hash, isStored := machineconfig.StoredHash(r.URL)
			if f, has := known[hash]; isStored && has {
				delete(known, hash)
				f.Path = r.Path
				all = append(all, f)
			}
		}
	}
	return all
}

// SaveLargeFiles writes the large files of configs into a directory. Without one, it prints a warning, or fails if the
// configs are printed as Ignition, which cannot download such files.
func SaveLargeFiles(warn io.Writer, dir string, asIgnition bool, files []machineconfig.LargeFile) error {
	if len(files) == 0 {
		return nil
	}
	if dir != "" {
		if err := writeLargeFiles(dir, files); err != nil {
			return cli.Invalid(err)
		}
		return nil
	}
	var sum int64
	paths := make([]string, len(files))
	for i, f := range files {
		sum, paths[i] = sum+f.Size, f.Path
	}
	text := fmt.Sprintf("the config does not have the contents of large files (%s, %s): --content DIR writes them",
		strings.Join(paths, ", "), machineconfig.SizeText(sum))
	if asIgnition {
		return cli.Invalid(fmt.Errorf("writing Ignition: %s, for machine-config-daemon apply --content. Ignition "+
			"itself cannot download them", text))
	}
	fmt.Fprintf(warn, "warning: %s\n", text)
	return nil
}

// writeLargeFiles writes files into a directory, each under its hash. It replaces none.
func writeLargeFiles(dir string, files []machineconfig.LargeFile) error {
	if err := os.MkdirAll(dir, 0o777); err != nil { //nolint:gosec // the umask of the user decides
		return fmt.Errorf("creating the directory of large files: %w", err)
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Hash)
		if old, err := os.Open(name); err == nil {
			hash, err := copyHashed(io.Discard, old)
			if err := errors.Join(err, old.Close()); err == nil && hash == f.Hash {
				continue
			}
		}
		if err := writeLargeFile(name, f); err != nil {
			return fmt.Errorf("writing the contents of %s: %w", f.Path, err)
		}
	}
	return nil
}

// writeLargeFile gives a file its name when it is complete.
func writeLargeFile(name string, f machineconfig.LargeFile) error {
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	to, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC,
		0o666) //nolint:gosec // the umask of the user decides
	if err != nil {
		return err
	}
	hash, err := copyHashed(to, from)
	if err = errors.Join(err, to.Sync(), to.Close()); err == nil && hash != f.Hash {
		err = errors.New("the file changed while it was read: run the command again")
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name+".new"))
	}
	return nil
}

func copyHashed(to io.Writer, from io.Reader) (string, error) {
	sum := sha512.New()
	_, err := io.Copy(io.MultiWriter(to, sum), from)
	return "sha512-" + hex.EncodeToString(sum.Sum(nil)), err
}
