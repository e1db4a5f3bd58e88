package transpile

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Bounds of the search for cluster objects in wrong places: it reads what nobody asked for.
const (
	maxStraySize  = 64 << 10
	maxStrayFiles = 2000
	maxStrays     = 20
)

// topLevel finds the kind and the apiVersion of an object; a file may hold several.
var topLevel = regexp.MustCompile(`(?m)^(kind|apiVersion):[ \t]+["']?([\w./]+)["']?[ \t\r]*(?:#.*)?$`)

// strayReader looks for cluster objects outside of cluster/.
type strayReader struct {
	*run
	files, found int
}

// strays warns of cluster objects that nothing reads, for whoever wrote one expects it to count. Where a pool could not be
// built nobody knows what it would have read.
func strays(r *run) {
	if origin.Fatal(r.findings) {
		return
	}
	s := &strayReader{run: r}
	_ = fs.WalkDir(r.fs, ".", s.visit) // it stops where a bound is met; what cannot be read is left to whoever needs it
}

// visit looks at one entry of the tree.
func (s *strayReader) visit(file string, e fs.DirEntry, err error) error {
	ext := path.Ext(file)
	switch {
	case err != nil || file == ".":
		return nil
	case strings.HasPrefix(e.Name(), ".") && e.IsDir():
		return fs.SkipDir
	case strings.HasPrefix(e.Name(), "."), !e.Type().IsRegular():
		return nil
	case isPlainDocument(file) && strings.HasPrefix(file, poolsDir+"/"):
		s.leftOut(file)
		return nil
	case ext != ".yaml" && ext != ".yml":
		return nil
	case path.Dir(file) == clusterDir || s.isRead(file):
		return nil
	}
	if info, err := e.Info(); err != nil || info.Size() >= maxStraySize {
		return nil
	}
	if s.files++; s.files > maxStrayFiles || s.found >= maxStrays {
		return fs.SkipAll
	}
	src, err := fs.ReadFile(s.tree.FS, file) // nobody else needs it kept
	if err != nil {
		return nil
	}
	if kind, line := strayKind(src); kind != "" {
		s.found++
		itself := ""
		if strings.HasPrefix(file, clusterDir+"/") {
			itself = " itself"
		}
		s.findings = slices.DeleteFunc(s.findings, func(f origin.Finding) bool { return f.Rule == unusedFile && f.At.File == file })
		s.warn(origin.Pos{File: file, Line: line}, unusedFile, "not read: a %s belongs in %s/%s; move it there", kind, clusterDir, itself)
	}
	return nil
}

// leftOut warns of a document below pools/ that no pool takes in, as in a subdirectory that nothing lists.
func (s *strayReader) leftOut(file string) {
	if s.found >= maxStrays || s.reads[file] || s.isReported(file) {
		return
	}
	s.found++
	s.warn(origin.Pos{File: file}, unusedFile, "not read: a pool takes the documents of its own directory, and of others that a kustomization.yaml lists; move it, or list it there")
}

// isReported reports whether a file is said to be unused already.
func (s *strayReader) isReported(file string) bool {
	return slices.ContainsFunc(s.findings, func(f origin.Finding) bool { return f.Rule == unusedFile && f.At.File == file })
}

// overridesOfNodes refuses documents in nodes/. They look as if single nodes got them, and nothing reads them.
func overridesOfNodes(r *run) {
	said := map[string]bool{}
	_ = fs.WalkDir(r.fs, nodesDir, func(file string, e fs.DirEntry, err error) error {
		switch parts := strings.SplitN(file, "/", 3); {
		case err != nil || len(said) >= maxStrays:
			return fs.SkipAll
		case e.IsDir() || len(parts) < 3 || !isDocument(file) || r.reads[file] || said[parts[1]]:
		default:
			said[parts[1]] = true
			r.fatal(origin.Pos{File: file}, "nodes-directory", "not read: documents for single nodes are not supported; for a node that differs, declare a pool of its own in %s/ and put the document into %s/<pool>/", clusterDir, poolsDir)
		}
		return nil
	})
}

// isRead tells whether a pool is made of a file, or a document takes it in. What was read only to be left out is not.
func (s *strayReader) isRead(file string) bool {
	return !s.isReported(file) && s.reads[file]
}

// strayKind is the first kind of cluster/ that a file holds at its top level, and the line that says so.
func strayKind(src []byte) (kind string, line int) {
	for doc := range bytes.SplitSeq(src, []byte("\n---")) {
		said := map[string]string{}
		at := 0
		for _, m := range topLevel.FindAllSubmatchIndex(doc, -1) {
			word := string(doc[m[2]:m[3]])
			said[word] = string(doc[m[4]:m[5]])
			if word == "kind" {
				at = bytes.Count(doc[:m[0]], []byte("\n"))
			}
		}
		if clusterKinds[said["apiVersion"]+" "+said["kind"]] != nil {
			return said["kind"], line + at + 1
		}
		line += bytes.Count(doc, []byte("\n")) + 1
	}
	return "", 0
}

// noteReads adds what a pool was made of, and what its documents took in.
func (e poolEntry) noteReads(reads map[string]bool) {
	for _, f := range e.reads {
		reads[f.Path] = true
	}
	for _, l := range e.locals {
		reads[l.path] = true
		for _, f := range l.files {
			reads[f.Path] = true
		}
	}
}
