package transpile

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// The limits of the search for cluster objects outside of cluster/.
const (
	maxStraySize  = 64 << 10
	maxStrayFiles = 2000
	maxStrays     = 20
)

// topLevel finds the kinds and the apiVersions of the objects in a file.
var topLevel = regexp.MustCompile(`(?m)^(kind|apiVersion):[ \t]+["']?([\w./]+)["']?[ \t\r]*(?:#.*)?$`)

// warnUnusedFiles warns of files with cluster objects or documents that Bunsen does not read. warnUnusedFiles does
// nothing if a finding is fatal, because the build of a failed pool does not return the files that it read.
func warnUnusedFiles(repo repository, reads map[string]bool, found *origin.Findings) {
	if found.HasErrors() {
		return
	}
	s := &unusedFinder{Findings: found, repo: repo, reads: reads}
	// The walk returns no error: it stops at a limit, and skips files that cannot be read.
	_ = fs.WalkDir(repo.fs, ".", s.visit)
}

// unusedFinder looks for cluster objects outside of cluster/, and for documents of pools that no pool lists.
type unusedFinder struct {
	*origin.Findings
	repo         repository
	reads        map[string]bool
	files, found int
}

// visit checks one entry of the tree.
func (s *unusedFinder) visit(file string, e fs.DirEntry, err error) error {
	switch {
	case err != nil || file == ".":
		return nil
	case strings.HasPrefix(e.Name(), ".") && e.IsDir():
		return fs.SkipDir
	case strings.HasPrefix(e.Name(), "."), !e.Type().IsRegular():
		return nil
	case isPlainDocument(file) && strings.HasPrefix(file, poolsDir+"/"):
		s.warnUnlisted(file)
		return nil
	case !s.mayBeStray(file, e):
		return nil
	}
	if s.files++; s.files > maxStrayFiles || s.found >= maxStrays {
		return fs.SkipAll
	}
	s.warnStray(file)
	return nil
}

// mayBeStray reports whether the name and size of an unused file allow that it contains a cluster object.
func (s *unusedFinder) mayBeStray(file string, e fs.DirEntry) bool {
	if ext := path.Ext(file); ext != ".yaml" && ext != ".yml" {
		return false
	}
	if path.Dir(file) == cluster.Dir || s.isRead(file) {
		return false
	}
	info, err := e.Info()
	return err == nil && info.Size() < maxStraySize
}

// warnStray warns of a file outside of cluster/ that contains a cluster object.
func (s *unusedFinder) warnStray(file string) {
	src, err := fs.ReadFile(s.repo.tree.FS, file) // warnStray reads the file without the cache of cleanFS.
	if err != nil {
		return
	}
	kind, line := strayKind(src)
	if kind == "" {
		return
	}
	s.found++
	itself := ""
	if strings.HasPrefix(file, cluster.Dir+"/") {
		itself = " itself"
	}
	s.List = slices.DeleteFunc(s.List, func(f origin.Finding) bool {
		return f.Rule == cluster.UnusedFile && f.At.File == file
	})
	s.Warnf(origin.Pos{File: file, Line: line}, cluster.UnusedFile, "not read: a %s belongs in %s/%s; move it there",
		kind, cluster.Dir, itself)
}

// warnUnlisted warns of a document below pools/ that no pool lists, for example in a subdirectory.
func (s *unusedFinder) warnUnlisted(file string) {
	if s.found >= maxStrays || s.reads[file] || s.isReported(file) {
		return
	}
	s.found++
	s.Warnf(origin.Pos{File: file}, cluster.UnusedFile, "not read: a pool has the documents of its own directory, "+
		"and of other directories that its kustomization.yaml lists; move it, or list it there")
}

// isReported reports whether a finding already names a file as unused.
func (s *unusedFinder) isReported(file string) bool {
	return slices.ContainsFunc(s.List, func(f origin.Finding) bool {
		return f.Rule == cluster.UnusedFile && f.At.File == file
	})
}

// isRead reports whether a pool was built from a file, or a document includes it.
func (s *unusedFinder) isRead(file string) bool {
	return !s.isReported(file) && s.reads[file]
}

// strayKind returns the first kind of cluster/ that a file has at its top level, and its line.
func strayKind(src []byte) (kind string, line int) {
	for doc := range bytes.SplitSeq(src, []byte("\n---")) {
		fields := map[string]string{}
		at := 0
		for _, m := range topLevel.FindAllSubmatchIndex(doc, -1) {
			word := string(doc[m[2]:m[3]])
			fields[word] = string(doc[m[4]:m[5]])
			if word == "kind" {
				at = bytes.Count(doc[:m[0]], []byte("\n"))
			}
		}
		if cluster.IsKind(fields["apiVersion"], fields["kind"]) {
			return fields["kind"], line + at + 1
		}
		line += bytes.Count(doc, []byte("\n")) + 1
	}
	return "", 0
}
