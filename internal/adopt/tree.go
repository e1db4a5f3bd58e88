package adopt

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/source"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TreeInput is a directory of Butane files.
type TreeInput struct {
	// Tree holds the Butane files, under any names with the extensions .bu, .butane, .fcc, .yaml and .yml.
	Tree source.Tree
	// Files is the directory of `local:` paths, as Butane's option --files-dir.
	Files source.Tree
	// Secrets are the local files that the user names as secret; the first slash is the directory of local files.
	Secrets secretmask.Paths
	// Pool is the pool of files that do not name one; "" for none. Import skips files of other pools.
	Pool string
}

// TreeOutput is the result of an import.
type TreeOutput struct {
	Repository
	// Executable are the files of the repository that must stay executable, in lexical order. Butane gives executable
	// files another mode on the node.
	Executable []string
}

// ImportTree creates a repository from a directory of Butane files. A file that no other file merges is the config of
// one pool. The configs that this file merges become later documents of the pool, in the order in which Ignition merges
// them. A compiled config represents the Butane file of the same name. Import stores a file that it cannot import below
// unsupported/, with the reason. The error names decisions that the user has to make first; with an error, there is no
// repository. Equal inputs give equal bytes.
func ImportTree(in TreeInput) (TreeOutput, []Finding, error) {
	i := &importer{in: in, files: map[string]*file{}}
	i.out.Files = map[string][]byte{}
	if err := i.discover(); err != nil {
		return TreeOutput{}, nil, err
	}
	if len(i.files) == 0 {
		return TreeOutput{}, nil, errors.New("the directory contains no Butane file. For MachineConfigs, " +
			"name their files: bunsen import DIRECTORY/*.yaml. A Butane file has the keys variant " +
			"and version, and the extension .bu, .butane, .fcc, .yaml or .yml")
	}
	i.resolveAll()
	pools, err := i.pools()
	if err != nil {
		return TreeOutput{}, nil, err
	}
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		i.writePool(pool, pools[pool])
	}
	i.finish()
	return i.out, i.findings, nil
}

type importer struct {
	in TreeInput
	// the files of the tree by path, and the compiled configs that files merge by their path after a colon
	files    map[string]*file
	findings []Finding
	out      TreeOutput
}

type line struct {
	file   *file
	number int
}

func (f *file) at(number int) line { return line{f, number} }

func (i *importer) note(l line, rule, format string, args ...any) {
	i.findings = append(i.findings, Finding{
		Rule: rule, Message: fmt.Sprintf(format, args...), Object: l.file.String(),
		At: Position{File: l.file.shown, Line: l.number},
	})
}

func (i *importer) warn(l line, rule, format string, args ...any) {
	i.note(l, rule, format, args...)
	i.findings[len(i.findings)-1].Warning = true
}

// ordered sorts the files by path.
func ordered(files map[string]*file) []*file {
	out := slices.Collect(maps.Values(files))
	slices.SortFunc(out, func(a, b *file) int { return cmp.Compare(a.path, b.path) })
	return out
}

// pools returns the files of each pool in the order in which they are merged.
func (i *importer) pools() (map[string][]*file, error) {
	out := map[string][]*file{}
	var undecided []string
	for _, f := range ordered(i.files) {
		if f.merged {
			continue
		}
		pool := f.pool()
		if pool == "" {
			pool = i.in.Pool
		}
		switch {
		case pool != "" && len(validation.IsDNS1123Label(pool)) > 0:
			i.setAside(f, 1, fmt.Sprintf("its role %q is no name for a pool: use lower-case letters, digits and -",
				pool))
			i.sequence(f)
			continue
		case pool == "":
			undecided = append(undecided, f.shown)
			continue
		case i.in.Pool != "" && pool != i.in.Pool:
			f.skipped = fmt.Sprintf("it is for pool %s, and --pool selects only %s", pool, i.in.Pool)
			i.note(f.at(1), "other-pool", "skipped: %s", f.skipped)
			i.sequence(f)
			continue
		}
		out[pool] = append(out[pool], i.sequence(f)...)
	}
	if len(undecided) > 0 {
		return nil, fmt.Errorf("the pool of %s is not known: set it with --pool, or name the file or its directory "+
			"%s or %s", FirstNames(undecided), masterPool, workerPool)
	}
	for pool, files := range out {
		out[pool] = once(files)
	}
	return out, nil
}

// once returns each file only at its last position, because a config that is merged later overrides earlier ones.
func once(files []*file) []*file {
	var out []*file
	for n, f := range files {
		if slices.Contains(files[n+1:], f) {
			continue
		}
		out = append(out, f)
	}
	return out
}

// sequence returns a file and all configs that it merges, in the order of Ignition: a merged config overrides the file
// that merges it, and a later config overrides an earlier one.
func (i *importer) sequence(root *file) []*file {
	var out, stack []*file
	var visit func(f *file)
	visit = func(f *file) {
		f.reached = true
		stack = append(stack, f)
		defer func() { stack = stack[:len(stack)-1] }()
		if !f.replaced() {
			out = append(out, f)
		}
		for _, l := range f.links {
			switch {
			case l.target == nil:
			case slices.Contains(stack, l.target):
				i.warn(f.at(l.line), "cycle", "it merges %s, which merges it: a machine could not read that; the "+
					"second merge is left out", l.target.shown)
			default:
				visit(l.target)
			}
		}
	}
	visit(root)
	return out
}

// finish reports the files that were not written, and sorts all results.
func (i *importer) finish() {
	for _, f := range ordered(i.files) {
		switch {
		case len(f.written) > 0 || f.skipped != "":
		case f.merged && f.reached && !f.replaced():
			f.skipped = "only files that are not imported merge it"
		case !f.reached:
			f.skipped = "only files that it merges itself merge it, so that no machine gets it; break the cycle"
			i.warn(f.at(1), "cycle", "not imported: %s", f.skipped)
		case f.replaced():
			f.skipped = "the config that it names under ignition.config.replace stands for all of it"
			i.note(f.at(1), "replaced", "not imported: %s", f.skipped)
		}
		i.out.Objects = append(i.out.Objects, Object{
			Kind: f.kind(), Name: f.path, At: Position{File: f.shown, Line: 1}, Files: f.written,
			Skipped: f.skipped, Aside: f.aside,
		})
	}
	SortFindings(i.findings)
	slices.Sort(i.out.Secrets)
	i.out.Secrets = slices.Compact(i.out.Secrets)
	slices.Sort(i.out.Executable)
	i.out.Executable = slices.Compact(i.out.Executable)
}

func stem(p string) string {
	base := path.Base(p)
	return strings.TrimSuffix(base, path.Ext(base))
}

// Position is a place in an input.
type Position struct {
	// File is the input's name as the caller gave it.
	File string
	// Line counts from 1; 0 means the whole file.
	Line int
}

// String returns `file:line` on one line, also if the file's name contains line breaks.
func (p Position) String() string {
	if p.Line == 0 {
		return safetext.OneLine(p.File)
	}
	return fmt.Sprintf("%s:%d", safetext.OneLine(p.File), p.Line)
}

// Finding is one result of an import that a user should read.
type Finding struct {
	// Warning marks a finding that a user should check before using the repository. Others are for information.
	Warning bool
	// Rule is a stable name in kebab-case, such as `encoding`, `secret`, `unsupported`.
	Rule string
	// Message says what Import did and what the user should do, in one line. It never contains contents of files.
	Message string
	// Object is kind and name, such as `MachineConfig 10-worker-chrony`; empty for the whole import.
	Object string
	At     Position
	// Path is the file of the repository that the finding is about, or "".
	Path string
}

// String returns `file:line: warning: object: message [rule]` without its unknown parts.
func (f Finding) String() string {
	var b strings.Builder
	if f.At.File != "" {
		b.WriteString(f.At.String() + ": ")
	}
	if f.Warning {
		b.WriteString("warning: ")
	} else {
		b.WriteString("note: ")
	}
	if f.Object != "" {
		b.WriteString(safetext.OneLine(f.Object) + ": ")
	}
	fmt.Fprintf(&b, "%s [%s]", safetext.OneLine(f.Message), f.Rule)
	return b.String()
}

// SortFindings sorts findings by their positions.
func SortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line))
	})
}

// FirstNames joins names for a message: all names, or the first ones and the number of the others.
func FirstNames(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
