package repository

import (
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

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// presetFile is the file in which a first boot records the enabled units. Ignition defines its name.
const presetFile = "/etc/systemd/system-preset/20-ignition.preset"

// writeTree writes the root file system of a config into dir, which must be empty and is created if missing, and
// returns the paths in lexical order. The files belong to the user who runs the command.
func writeTree(dir string, c machineconfig.Config) ([]string, error) {
	want := plan.DesiredOf(c, host.Accounts{Unprivileged: true})
	if len(want.Problems) > 0 {
		var errs []error
		for _, p := range want.Problems {
			errs = append(errs, fmt.Errorf("%s: %s", p.Field, p.Why))
		}
		return nil, cli.Invalid(errors.Join(errs...))
	}
	addPresets(&want)
	root, err := emptyRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return writePaths(root, want)
}

// PrintTree writes the tree of a config, and prints the written paths.
func PrintTree(w io.Writer, dir string, r render.Rendered) error {
	written, err := writeTree(dir, r.Config)
	if err != nil {
		return err
	}
	for _, f := range machineconfig.RemoteFiles(r.Config) {
		dir += "; machines download " + f.Path + " from " + machineconfig.ShownAddress(f.URL)
	}
	_, err = fmt.Fprintf(w, "%s\n%d paths of %s are in %s; kernel arguments, accounts and the image are not files\n",
		strings.Join(written, "\n"), len(written), r.Name, dir)
	return err
}

// writePaths writes the paths of want in lexical order, in which parents come first, and the modes of folders last.
func writePaths(root *os.Root, want plan.Desired) (written []string, err error) {
	entries := maps.Clone(want.Parents)
	maps.Copy(entries, want.Paths)
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		e := entries[p]
		contents, known := want.Contents[e.Digest]
		if e.Kind == host.Absent || e.Kind == host.File && !known { // Machines download the contents of remote files.
			continue
		}
		if err := writePath(root, strings.TrimPrefix(p, "/"), e, contents); err != nil {
			return nil, cli.Invalid(fmt.Errorf("writing %s: %w", p, err))
		}
		written = append(written, p)
	}
	// A mode may forbid the owner to write into the folder.
	for _, p := range slices.Backward(written) {
		if e := entries[p]; e.Kind == host.Dir {
			if err := root.Chmod(strings.TrimPrefix(p, "/"), fs.FileMode(e.Mode)); err != nil {
				return nil, cli.Invalid(fmt.Errorf("writing %s: %w", p, err))
			}
		}
	}
	return written, nil
}

func writePath(root *os.Root, p string, e host.Entry, contents []byte) error {
	if dir := path.Dir(p); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	mode := fs.FileMode(e.Mode)
	switch e.Kind {
	case host.Dir:
		return root.MkdirAll(p, 0o755)
	case host.Link:
		return root.Symlink(e.Target, p)
	default:
		if err := root.WriteFile(p, contents, 0o600); err != nil {
			return err
		}
		return root.Chmod(p, mode)
	}
}

// addPresets adds the file in which a first boot records the enabled units. systemd creates the links from it.
func addPresets(want *plan.Desired) {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want.Units)) {
		if on := want.Units[name].Enabled; on != nil {
			fmt.Fprintf(&lines, "%s %s\n", map[bool]string{true: "enable", false: "disable"}[*on], name)
		}
	}
	if _, taken := want.Paths[presetFile]; taken || lines.Len() == 0 {
		return
	}
	e := host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte(lines.String()))}
	want.Paths[presetFile], want.Contents[e.Digest] = e, []byte(lines.String())
}

// emptyRoot limits writes to an empty directory.
func emptyRoot(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, cli.Invalid(fmt.Errorf("making the directory of the tree: %w", err))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, cli.Invalid(fmt.Errorf("reading the directory of the tree: %w", err))
	}
	if len(entries) > 0 {
		return nil, cli.Invalid(fmt.Errorf("%s is not empty: name a new directory, so that nothing in the tree is "+
			"left over from elsewhere", filepath.Clean(dir)))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, cli.Invalid(fmt.Errorf("opening the directory of the tree: %w", err))
	}
	return root, nil
}
