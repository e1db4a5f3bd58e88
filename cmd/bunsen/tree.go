package main

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
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// presetFile is where a first boot records which units are enabled, as Ignition names it.
const presetFile = "/etc/systemd/system-preset/20-ignition.preset"

// writeTree writes the root file system that a config gives a node into dir, which is made where it is missing and must
// be empty. It returns the paths in lexical order. Owners are those of whoever runs it.
func writeTree(dir string, c machineconfig.Config) ([]string, error) {
	want := plan.Want(c, host.Accounts{Unprivileged: true})
	if len(want.Problems) > 0 {
		var errs []error
		for _, p := range want.Problems {
			errs = append(errs, fmt.Errorf("%s: %s", p.Field, p.Why))
		}
		return nil, invalid(errors.Join(errs...))
	}
	addPresets(&want)
	root, err := emptyRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return placed(root, want)
}

// printTree writes the tree and lists what it wrote.
func printTree(w io.Writer, dir string, r render.Rendered) error {
	written, err := writeTree(dir, r.Config)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n%d paths of %s are in %s; kernel arguments, accounts and the image are not files\n",
		strings.Join(written, "\n"), len(written), r.Name, dir)
	return err
}

// placed writes what is wanted, parents first: a path sorts before what is below it. Modes of folders come last.
func placed(root *os.Root, want plan.Wanted) (written []string, err error) {
	entries := maps.Clone(want.Parents)
	maps.Copy(entries, want.Paths)
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		e := entries[p]
		if e.Kind == host.Absent {
			continue
		}
		if err := put(root, strings.TrimPrefix(p, "/"), e, want.Contents[e.Digest]); err != nil {
			return nil, invalid(fmt.Errorf("writing %s: %w", p, err))
		}
		written = append(written, p)
	}
	for _, p := range slices.Backward(written) { // when all is in them: a folder may be closed to its owner, too
		if e := entries[p]; e.Kind == host.Dir {
			if err := root.Chmod(strings.TrimPrefix(p, "/"), fs.FileMode(e.Mode)); err != nil {
				return nil, invalid(fmt.Errorf("writing %s: %w", p, err))
			}
		}
	}
	return written, nil
}

// emptyRoot opens a directory for writing below it and nowhere else.
func emptyRoot(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, invalid(fmt.Errorf("making the directory of the tree: %w", err))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, invalid(fmt.Errorf("reading the directory of the tree: %w", err))
	}
	if len(entries) > 0 {
		return nil, invalid(fmt.Errorf("%s is not empty: name a new directory, so that nothing in the tree is left over from elsewhere", filepath.Clean(dir)))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, invalid(fmt.Errorf("opening the directory of the tree: %w", err))
	}
	return root, nil
}

func put(root *os.Root, p string, e host.Entry, contents []byte) error {
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

// addPresets adds the file in which a first boot records what is enabled: systemd makes the links from it.
func addPresets(want *plan.Wanted) {
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
