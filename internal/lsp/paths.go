package lsp

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/url"
	"path"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// pathOf returns the path of a URI of a file on this machine.
func pathOf(uri string) (string, bool) { return pathIn(uri, runtime.GOOS == "windows") }

// uriOf returns the URI of a path.
func uriOf(file string) string { return uriIn(file, runtime.GOOS == "windows") }

// pathIn is pathOf for one kind of system. On Windows a path has a drive, /c:/x in a URI, and no name has a colon.
func pathIn(uri string, windows bool) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path) ||
		strings.ContainsRune(u.Path, 0) {
		return "", false
	}
	if !windows {
		return path.Clean(u.Path), true
	}
	p := strings.ReplaceAll(u.Path, `\`, "/")
	if !hasDrive(strings.TrimPrefix(p, "/")) || strings.Contains(p[3:], ":") {
		return "", false
	}
	return strings.ToUpper(p[1:2]) + ":" + strings.ReplaceAll(path.Clean(p[3:]), "/", `\`), true
}

// uriIn is uriOf for one kind of system.
func uriIn(file string, windows bool) string {
	if windows {
		if file = strings.ReplaceAll(file, `\`, "/"); hasDrive(file) {
			file = "/" + file
		}
	}
	return (&url.URL{Scheme: "file", Path: file}).String()
}

// hasDrive reports whether a path begins as C:/ does.
func hasDrive(p string) bool {
	return len(p) > 2 && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z') && p[1] == ':' && p[2] == '/'
}

// isForeign reports whether a file, by a path with slashes, is of a program that works in a folder, and not of its
// repository: git writes many with each command.
func isForeign(file string) bool {
	for _, name := range strings.Split(file, "/") {
		if name == ".git" || name == "node_modules" {
			return true
		}
	}
	return false
}

// foldersAbove lists where the folder with pools/ of a file can be, both with slashes: above the outermost pools/ of
// its path, because a pool may have any name, and else each folder from the nearest one upwards.
func foldersAbove(file string) (out []string) {
	parts := strings.Split(file, "/")
	for i, name := range parts[:len(parts)-1] {
		if name == poolsFolder {
			out = append(out, path.Join(append([]string{"."}, parts[:i]...)...))
			break
		}
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if out = append(out, dir); dir == "." {
			return out
		}
	}
}

// poolsFolder is what a config repository has at its top.
const poolsFolder = "pools"

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
