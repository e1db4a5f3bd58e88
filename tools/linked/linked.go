package linked

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Go is the path of the standard library in the list, because its licence applies to every binary.
const Go = "std"

// Module is one module that a binary links.
type Module struct {
	// Path and Version are the path and the version of the linked code. If go.mod replaces the module, they are the
	// path and the version of the replacement.
	Path, Version string
	// Time is the time of the version (RFC 3339); Time is empty if the go command knows no time.
	Time string
	// Sum is the checksum of the module as in go.sum.
	Sum string
	// Files are the files that state licences. These files are in the module's root, in each directory with a linked
	// package, and in the directories between the root and such a directory.
	Files []File
}

// File is one file about licences.
type File struct {
	// Name is the slash path below the module's root.
	Name string
	// Text is the contents of the file.
	Text string
}

// Platform is a system that a binary is built for.
type Platform struct{ OS, Arch string }

// module and listed are the output of go list.
type module struct {
	Path, Version, Dir, Sum, Time string
	Main                          bool
	Replace                       *module
}

type listed struct {
	Dir      string
	Standard bool
	Module   *module
}

// Modules returns the modules that the packages link on any of the platforms, sorted by path, and the standard library
// as the first one.
func Modules(ctx context.Context, dir string, packages []string, platforms ...Platform) ([]Module, error) {
	found := map[string]*builder{}
	for _, p := range platforms {
		packages, err := list(ctx, dir, packages, p)
		if err != nil {
			return nil, err
		}
		for _, pkg := range packages {
			if pkg.Standard || pkg.Module == nil || pkg.Module.Main {
				continue
			}
			m := pkg.Module
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Dir == "" {
				return nil, fmt.Errorf("the sources of %s %s are not here: run go mod download in %s", m.Path,
					m.Version, dir)
			}
			key := m.Path + "@" + m.Version
			if found[key] == nil {
				found[key] = &builder{
					Module: Module{Path: m.Path, Version: m.Version, Time: m.Time, Sum: m.Sum},
					root:   m.Dir, visited: map[string]bool{},
				}
			}
			if err := found[key].visit(pkg.Dir); err != nil {
				return nil, err
			}
		}
	}
	std, err := standardLibrary(ctx, dir)
	if err != nil {
		return nil, err
	}
	var all []Module
	for _, b := range found {
		slices.SortFunc(b.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
		all = append(all, b.Module)
	}
	slices.SortFunc(all, func(a, b Module) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version, b.Version))
	})
	return append([]Module{std}, all...), nil
}

func list(ctx context.Context, dir string, packages []string, p Platform) (all []listed, err error) {
	out, err := goCommand(ctx, dir, p, append([]string{"list", "-deps", "-json=Dir,Standard,Module"}, packages...)...)
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg listed
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		all = append(all, pkg)
	}
}

// standardLibrary returns the Go distribution as a module, with the licence files in its root.
func standardLibrary(ctx context.Context, dir string) (Module, error) {
	out, err := goCommand(ctx, dir, Platform{}, "env", "GOVERSION", "GOROOT")
	if err != nil {
		return Module{}, err
	}
	version, root, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	b := builder{Module: Module{Path: Go, Version: version}, root: root, visited: map[string]bool{}}
	err = b.visit(root)
	return b.Module, err
}

func goCommand(ctx context.Context, dir string, p Platform, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if p != (Platform{}) {
		cmd.Env = append(cmd.Env, "GOOS="+p.OS, "GOARCH="+p.Arch)
	}
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("running go %s in %s: %w: %s", args[0], dir, err, bytes.TrimSpace(exit.Stderr))
	} else if err != nil {
		return nil, fmt.Errorf("running go %s in %s: %w", args[0], dir, err)
	}
	return out, nil
}

// builder collects the files of one module.
type builder struct {
	Module
	root    string
	visited map[string]bool
}

// names matches the names of files that state or explain a licence.
var names = regexp.MustCompile(`(?i)^(?:un)?licen[cs]e|^copying|^copyright|^notice|^patents|^third.?party`)

// visit adds the files of a directory and of each directory above it, up to the module's root.
func (b *builder) visit(dir string) error {
	for ; !b.visited[dir]; dir = filepath.Dir(dir) {
		b.visited[dir] = true
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("reading the sources of %s: %w", b.Path, err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !names.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
				continue
			}
			if err := b.add(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		if dir == b.root {
			return nil
		}
	}
	return nil
}

func (b *builder) add(file string) error {
	name, err := filepath.Rel(b.root, file)
	if err != nil || !fs.ValidPath(filepath.ToSlash(name)) {
		return fmt.Errorf("the file %s is not in the module %s", file, b.Path)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading a licence of %s: %w", b.Path, err)
	}
	b.Files = append(b.Files, File{filepath.ToSlash(name), string(text)})
	return nil
}
