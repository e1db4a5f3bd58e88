package transpile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// nodeBuilder builds what a pool says about single nodes: the table nodes.yaml, and the directories of nodes/.
type nodeBuilder struct {
	origin.Findings
	repo repository
	pool string
	// file is the path of the table. rows has its rows by the name of the node; nil without a table.
	file  string
	rows  map[string]kinds.FactRow
	order []kinds.FactRow
	table machineconfig.NodeTable
	// documents are the documents that the table contains, with their origins.
	documents []Fragment
	// broken is true if the table has errors, so that it may lack facts.
	broken bool
	// used has the facts that documents use. at has the position of each node.
	used map[string]bool
	at   map[string]origin.Pos
}

// buildNodes adds the table of nodes to the fragments of a built pool. Documents that use facts move to the table.
func (t *Transpiler) buildNodes(repo repository, pool string, built builtPool, stop *stopper) builtPool {
	b := &nodeBuilder{
		repo: repo, pool: pool, file: path.Join(poolDir(pool), kinds.NodeFactsFile), used: map[string]bool{},
		at: map[string]origin.Pos{},
	}
	b.table = machineconfig.NodeTable{Pool: pool, Nodes: map[string]machineconfig.NodeFacts{}}
	b.readRows(&built)
	directories := b.directories(built)
	if b.rows != nil {
		built.fragments = b.takeShared(built.fragments)
	} else {
		for _, f := range built.fragments {
			b.reportReferences(f, kinds.CheckTemplates(f.MachineConfig.Spec))
		}
	}
	for _, f := range built.fragments { // No table gives these a value for a fact.
		if err := kinds.CheckPlainImages(f.MachineConfig.Spec); err != nil {
			b.reportReferences(f, err)
		}
	}
	if b.rows == nil && len(directories) == 0 {
		built.findings = append(built.findings, b.List...)
		return built
	}
	for _, node := range directories {
		dir := path.Join(poolDir(pool), nodesDir, node)
		own := t.buildDirectory(repo, pool, dir, stop)
		if !origin.Fatal(own.findings) && len(own.fragments) == 0 {
			b.Errorf(origin.Pos{File: dir}, kinds.NodeFactsRule,
				"the directory of node %s has no documents: add a Butane "+
					"file (*.bu), or remove the directory", node)
		}
		built.reads, built.included = append(built.reads, own.reads...), append(built.included, own.included...)
		b.Add(slices.DeleteFunc(b.quiet(own.findings), func(f origin.Finding) bool {
			return f.Rule == RuleIdentity // The documents are of this node alone.
		})...)
		b.addDirectory(node, dir, own.fragments)
	}
	b.checkFacts()
	built.findings = append(b.quiet(built.findings), b.List...)
	if origin.Fatal(built.findings) {
		return built
	}
	b.List = nil
	b.checkNodes()
	f, err := b.fragment(built)
	if err != nil {
		b.Errorf(origin.Pos{File: b.file}, kinds.NodeFactsRule, "%v", err)
	}
	built.fragments, built.findings = append(built.fragments, f), append(built.findings, b.List...)
	return built
}

// readRows reads the table of the pool.
func (b *nodeBuilder) readRows(built *builtPool) {
	src, err := fs.ReadFile(b.repo.fs, b.file)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			b.Errorf(origin.Pos{File: b.file}, kinds.NodeFactsRule, "%v", err)
		}
		return
	}
	rows, isTable, found := kinds.ReadNodeFacts(b.file, src)
	if !isTable {
		return
	}
	b.Add(found...)
	b.broken = origin.Fatal(found)
	b.rows, b.order = map[string]kinds.FactRow{}, rows
	for _, row := range rows {
		b.rows[row.Node], b.at[row.Node] = row, row.At
		b.table.Nodes[row.Node] = machineconfig.NodeFacts{Facts: row.Facts()}
	}
	sum := sha256.Sum256(src)
	built.reads = append(built.reads, origin.File{Path: b.file, Blob: hex.EncodeToString(sum[:])})
	built.findings = slices.DeleteFunc(built.findings, func(f origin.Finding) bool {
		return f.Warning && f.At.File == b.file
	})
}

// directories returns the nodes that have a directory. The pool may list a directory of nodes/ itself; its documents
// then are documents of the whole pool.
func (b *nodeBuilder) directories(built builtPool) []string {
	dir := path.Join(poolDir(b.pool), nodesDir)
	entries, err := fs.ReadDir(b.repo.fs, dir)
	if err != nil {
		return nil
	}
	listed := map[string]bool{}
	built.addReads(listed)
	var out []string
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		isListed := false
		for file := range listed {
			isListed = isListed || strings.HasPrefix(file, at+"/")
		}
		switch bad := validation.IsDNS1123Subdomain(e.Name()); {
		case !e.IsDir() || isListed || strings.HasPrefix(e.Name(), "."):
		case len(bad) > 0:
			b.Errorf(origin.Pos{File: at}, kinds.NodeFactsRule, "%q is no name of a node: %s", e.Name(),
				strings.Join(bad, "; "))
		default:
			out = append(out, e.Name())
		}
	}
	return out
}

// quiet removes the warnings about references to facts, because the table replaces them.
func (b *nodeBuilder) quiet(found []origin.Finding) []origin.Finding {
	return slices.DeleteFunc(found, func(f origin.Finding) bool { return f.Rule == RuleNodeFact })
}

// takeShared moves the documents that use facts to the table, and returns the others.
func (b *nodeBuilder) takeShared(fragments []Fragment) []Fragment {
	var rest []Fragment
	for _, f := range fragments {
		found, err := machineconfig.FindFacts(f.MachineConfig.Spec)
		b.reportReferences(f, err)
		switch {
		case len(found.Facts) > 0:
			b.use(f, found.Facts)
			b.table.Shared = append(b.table.Shared, b.document(f))
		case found.Escaped:
			rest = append(rest, b.unescaped(f))
		default:
			rest = append(rest, f)
		}
	}
	slices.SortFunc(b.table.Shared, func(x,
		y machineconfig.NodeDocument,
	) int {
		return strings.Compare(x.Name, y.Name)
	})
	return rest
}

// unescaped returns a document without references in which $${node. became the text ${node.
func (b *nodeBuilder) unescaped(f Fragment) Fragment {
	spec, err := machineconfig.ExpandFacts(f.MachineConfig.Spec, nil)
	mc := f.MachineConfig.DeepCopy()
	mc.Spec = spec
	digest, wrong := kinds.ObjectDigest(mc)
	b.reportReferences(f, errors.Join(err, wrong))
	f.MachineConfig, f.Digest = mc, digest
	return f
}

// addDirectory adds the documents of a node's directory to the table.
func (b *nodeBuilder) addDirectory(node, dir string, fragments []Fragment) {
	n := b.table.Nodes[node]
	if _, ok := b.at[node]; !ok {
		b.at[node] = origin.Pos{File: dir}
	}
	row, hasRow := b.rows[node]
	for _, f := range inOrder(fragments) {
		found, err := machineconfig.FindFacts(f.MachineConfig.Spec)
		b.reportReferences(f, err)
		for _, fact := range found.Facts {
			if _, ok := row.Facts()[fact]; fact != machineconfig.NameFact && !ok && !b.broken {
				why := "has no row in " + b.file
				if hasRow {
					why = "has no such fact in " + row.At.String()
				}
				b.Errorf(b.place(f, fact), kinds.NodeFactsRule, "the document uses the fact %q, and node %s %s: add it",
					fact, node, why)
			}
			b.used[fact] = true
		}
		f.Node = node
		n.Documents = append(n.Documents, b.document(f))
	}
	b.table.Nodes[node] = n
}

// document returns a document in the form of the table.
func (b *nodeBuilder) document(f Fragment) machineconfig.NodeDocument {
	b.documents = append(b.documents, f)
	return machineconfig.NodeDocument{Name: f.Name, File: f.File, Spec: f.MachineConfig.Spec}
}

// reportReferences reports invalid references to facts.
func (b *nodeBuilder) reportReferences(f Fragment, err error) {
	if i := slices.IndexFunc(f.Contents, func(c machineconfig.LargeFile) bool {
		return c.HasFacts && b.rows != nil
	}); i >= 0 {
		b.Errorf(origin.Pos{File: f.Contents[i].Name, Line: 1}, kinds.NodeFactsRule,
			"the file is too large for a config, "+
				"and contains %s. A file of the content store is the same on all nodes: make it smaller, or remove "+
				"the "+
				"reference", machineconfig.ContentFact)
	}
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		b.Errorf(b.place(f, ""), kinds.NodeFactsRule, "%s", line)
	}
}

// use records the facts that a shared document uses. It refuses facts that no row has.
func (b *nodeBuilder) use(f Fragment, facts []string) {
	for _, fact := range facts {
		b.used[fact] = true
		if b.broken {
			continue
		}
		known := fact == machineconfig.NameFact
		for _, row := range b.order {
			_, has := row.Facts()[fact]
			known = known || has
		}
		if !known {
			b.Errorf(b.place(f, fact), kinds.NodeFactsRule,
				"no node of %s has the fact %q: correct the name, or add the "+
					"fact to each row", b.file, fact)
			continue
		}
		for _, row := range b.order {
			if _, has := row.Facts()[fact]; !has && fact != machineconfig.NameFact {
				b.Errorf(row.At, kinds.NodeFactsRule, "node %s has no fact %q, which %s uses: add it", row.Node, fact,
					b.place(f, fact))
			}
		}
	}
}

// place returns where a document uses a fact; an empty fact stands for the first reference.
func (b *nodeBuilder) place(f Fragment, fact string) origin.Pos {
	needle := "${node." + fact
	if fact != "" {
		needle += "}"
	}
	files := []string{f.File}
	for _, other := range f.Origin.Files {
		files = append(files, other.Path)
	}
	for _, file := range files {
		src, err := fs.ReadFile(b.repo.fs, file)
		if before, _, found := bytes.Cut(src, []byte(needle)); err == nil && found {
			return origin.Pos{
				File: file, Line: 1 + bytes.Count(before, []byte("\n")),
				Column: len(before) - bytes.LastIndexByte(before, '\n'),
			}
		}
	}
	return origin.Pos{File: f.File}
}

// checkFacts refuses facts that no document uses, because a misspelled name would have no effect.
func (b *nodeBuilder) checkFacts() {
	reported := map[string]bool{}
	for _, row := range b.order {
		for _, c := range row.Cells {
			if !b.used[c.Fact] && !reported[c.Fact] {
				reported[c.Fact] = true
				b.Errorf(c.At, kinds.NodeFactsRule,
					"no document uses the fact %q: write ${node.%s} into a document of "+
						"the pool, or remove the fact from each row", c.Fact, c.Fact)
			}
		}
	}
}

// maxBadNodes is for how many nodes the report has the errors of their documents.
const maxBadNodes = 20

// checkNodes checks the documents of each node with its facts in place.
func (b *nodeBuilder) checkNodes() {
	bad := 0
	for _, node := range b.table.Names() {
		before := len(b.List)
		documents, err := b.table.For(node)
		if err != nil {
			b.Errorf(b.at[node], kinds.NodeFactsRule, "%v", err)
		}
		for _, d := range documents {
			for _, problem := range kinds.NodeFactsProblems(d) {
				b.Errorf(b.at[node], kinds.NodeFactsRule, "document %s with the facts of node %s: %s", d.Name, node,
					problem)
			}
		}
		if len(b.List) > before {
			bad++
		}
		if bad == maxBadNodes {
			return
		}
	}
}

// fragment returns the MachineConfig that stores the table.
func (b *nodeBuilder) fragment(built builtPool) (Fragment, error) {
	mc, err := b.table.MachineConfig()
	if err != nil {
		return Fragment{}, err
	}
	var paths []string
	var of []origin.File
	for _, d := range b.documents {
		of = append(of, d.Origin.Files...)
		marked, err := secretmask.ParsePaths(d.MachineConfig.Annotations[v1alpha1.SecretPathsAnnotation])
		if err != nil {
			return Fragment{}, fmt.Errorf("reading the secret paths of %s: %w", d.Name, err)
		}
		paths = append(paths, marked...)
	}
	if text := secretmask.Join(paths); text != "" {
		mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: text}
	}
	digest, err := kinds.ObjectDigest(mc)
	if err != nil {
		return Fragment{}, err
	}
	f := Fragment{
		Pool: b.pool, Name: mc.Name, MachineConfig: mc, Digest: digest, File: b.file, Documents: b.documents,
		Nodes: b.at,
	}
	if b.rows == nil {
		f.File = b.documents[0].File
	}
	f.Origin.At = map[string]origin.Pos{"$": {File: f.File, Line: 1}}
	f.Origin.Files = kinds.NodeFactsFiles(b.file, path.Join(poolDir(b.pool), nodesDir), built.reads, of)
	return f, nil
}
