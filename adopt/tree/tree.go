package tree

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/adopt"
	"github.com/bunsen-os/bunsen/source"
)

// The pools that every cluster has.
const (
	masterPool = "master"
	workerPool = "worker"
)

// asideDir is the directory of files that a person has to look at; nothing reads it.
const asideDir = "unsupported"

// Input is a directory of Butane files.
type Input struct {
	// Tree holds the Butane files, under any names with the extensions .bu, .butane, .fcc, .yaml and .yml.
	Tree source.Tree
	// Files is the directory that `local:` is relative to, as Butane's option --files-dir.
	Files source.Tree
	// Pool is the pool of files that do not name one; "" is none. Files of other pools are skipped.
	Pool string
}

// Output is what an import gives.
type Output struct {
	adopt.Repository
	// Executable are the files of the repository that have to stay executable, in lexical order: Butane gives them another mode.
	Executable []string
}

// Import makes a repository of a directory of Butane files. A file that no other file merges is the config of one pool, and
// the configs that it merges follow it, in the order in which Ignition merges them. A compiled config stands for the Butane file
// of the same name. A file that cannot be imported is kept below unsupported/ with the reason. The error is about what has to
// be decided first; there is no repository then. Equal inputs give equal bytes.
func Import(in Input) (Output, []adopt.Finding, error) {
	i := &importer{in: in, files: map[string]*file{}}
	i.out.Files = map[string][]byte{}
	if err := i.discover(); err != nil {
		return Output{}, nil, err
	}
	if len(i.files) == 0 {
		return Output{}, nil, errors.New("there is no Butane file in the directory: a Butane file has one of the extensions .bu, .butane, .fcc, .yaml and .yml, and the keys variant and version")
	}
	i.resolveAll()
	pools, err := i.pools()
	if err != nil {
		return Output{}, nil, err
	}
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		i.writePool(pool, pools[pool])
	}
	i.finish()
	return i.out, i.findings, nil
}

// importer is one import.
type importer struct {
	in Input
	// files of the tree by path, and the compiled configs that files merge, by their path behind a colon.
	files    map[string]*file
	findings []adopt.Finding
	out      Output
}

// find adds a finding about a file.
func (i *importer) find(f *file, line int, warning bool, rule, format string, args ...any) {
	i.findings = append(i.findings, adopt.Finding{
		Warning: warning, Rule: rule, Message: fmt.Sprintf(format, args...), Object: f.String(), At: adopt.Position{File: f.shown, Line: line},
	})
}

// ordered returns the files by path.
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
			i.setAside(f, 1, fmt.Sprintf("its role %q is no name for a pool: use lower-case letters, digits and -", pool))
			i.sequence(f)
			continue
		case pool == "":
			undecided = append(undecided, f.shown)
			continue
		case i.in.Pool != "" && pool != i.in.Pool:
			f.skipped = fmt.Sprintf("it is for pool %s, and only %s is asked for", pool, i.in.Pool)
			i.find(f, 1, false, "other-pool", "skipped: %s", f.skipped)
			i.sequence(f)
			continue
		}
		out[pool] = append(out[pool], i.sequence(f)...)
	}
	if len(undecided) > 0 {
		return nil, fmt.Errorf("the pool of %s is not known: set it with --pool, or name the file or its directory %s or %s", few(undecided), masterPool, workerPool)
	}
	for pool, files := range out {
		out[pool] = once(files)
	}
	return out, nil
}

// once keeps the last of several occurrences of a file: what is merged later wins.
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

// sequence returns a file and all configs that it merges, in the order of Ignition: a merged config wins over the file that
// merges it, and a later one wins over an earlier one.
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
				i.find(f, l.line, true, "cycle", "it merges %s, which merges it: a machine could not read that; the second merge is left out", l.target.shown)
			default:
				visit(l.target)
			}
		}
	}
	visit(root)
	return out
}

// finish reports the files that were not written, and puts all results in order.
func (i *importer) finish() {
	for _, f := range ordered(i.files) {
		switch {
		case len(f.written) > 0 || f.skipped != "":
		case f.merged && f.reached && !f.replaced():
			f.skipped = "only files that are not imported merge it"
		case !f.reached:
			f.skipped = "only files that it merges itself merge it, so that no machine gets it; break the cycle"
			i.find(f, 1, true, "cycle", "not imported: %s", f.skipped)
		case f.replaced():
			f.skipped = "the config that it names under ignition.config.replace stands for all of it"
			i.find(f, 1, false, "replaced", "not imported: %s", f.skipped)
		}
		i.out.Objects = append(i.out.Objects, adopt.Object{
			Kind: f.kind(), Name: f.path, At: adopt.Position{File: f.shown, Line: 1}, Files: f.written, Skipped: f.skipped, Aside: f.aside,
		})
	}
	slices.SortStableFunc(i.findings, func(a, b adopt.Finding) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line))
	})
	slices.Sort(i.out.Secrets)
	i.out.Secrets = slices.Compact(i.out.Secrets)
	slices.Sort(i.out.Executable)
	i.out.Executable = slices.Compact(i.out.Executable)
}

// few joins names for a message.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// stem is a file's name without directory and extension.
func stem(p string) string {
	base := path.Base(p)
	return strings.TrimSuffix(base, path.Ext(base))
}
