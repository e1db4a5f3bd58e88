package lsp

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// text returns a file of the tree, if it can be a document.
func (s *snapshot) text(file string) string {
	if !s.has(file) {
		return ""
	}
	info, err := fs.Stat(s.tree.FS, file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxText {
		return ""
	}
	text, err := fs.ReadFile(s.tree.FS, file)
	if err != nil {
		return ""
	}
	return string(text)
}

// isOf reports whether the snapshot is of a state in which a file has a text. The files of the tree may be newer.
func (s *snapshot) isOf(file, text string) bool {
	if !s.has(file) {
		return false
	}
	sum := sha256.Sum256([]byte(text))
	return strings.HasSuffix(s.tree.Entries[file].State, hex.EncodeToString(sum[:]))
}

// root returns the first YAML document of a file; nil if it has none.
func (s *snapshot) root(file string) *yaml.Node {
	roots, _ := parse(s.text(file))
	if len(roots) == 0 {
		return nil
	}
	return roots[0]
}

// isReference reports whether the value of a key, or an item of it, is a path relative to the directory of the
// document.
func isReference(file string, keys []string) bool {
	last := len(keys) - 1
	for last >= 0 && keys[last] == "-" {
		last--
	}
	if last < 0 {
		return false
	}
	if isKustomization(file) {
		where := strings.Join(keys, ".")
		return where == "resources.-" || where == "components.-" || where == "patches.-.path"
	}
	return documents.IsLocal(keys[last]) || documents.AreLocal(keys[last])
}

// resolve returns the path in the repository of a path that a file of it names; false if it leads out of it.
func resolve(file, to string) (string, bool) {
	if to == "" || strings.HasPrefix(to, "/") || strings.Contains(to, "://") || strings.Contains(to, "\\") {
		return "", false
	}
	clean := path.Join(path.Dir(file), to)
	return clean, fs.ValidPath(clean)
}
