package adopt

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/source"
)

func (i *importer) resolveAll() {
	for _, f := range ordered(i.files) {
		for n, l := range f.links {
			i.resolve(f, n, l)
			if l.target != nil && l.target != f {
				l.target.merged = true
			}
		}
	}
}

// resolve finds the file that a link names: the Butane file of the same name, or else the compiled config itself.
func (i *importer) resolve(f *file, n int, l *link) {
	if l.local == "" {
		i.inline(f, n, l)
		return
	}
	if l.target = butaneOf(i.files, l.local); l.target != nil {
		return
	}
	src, _, err := readLocal(i.in.Files, l.local)
	if err != nil {
		f.setBad(l.line, fmt.Sprintf("it merges %q, of which there is neither a Butane file here nor the compiled "+
			"config: %v", l.local, err))
		return
	}
	key := ":" + path.Clean(l.local)
	if i.files[key] == nil {
		i.files[key] = &file{path: path.Clean(l.local), shown: path.Clean(l.local), source: src}
	}
	l.target = i.files[key]
}

// butaneOf returns the Butane file of a compiled config: the one with the same path except for the extension, or else
// the only one of that name in another directory.
func butaneOf(files map[string]*file, compiled string) *file {
	wanted := strings.TrimSuffix(path.Clean(compiled), ".ign")
	var same []*file
	for _, f := range ordered(files) {
		if f.compiled() {
			continue
		}
		if own := strings.TrimSuffix(f.path, path.Ext(f.path)); own == wanted || f.path == wanted {
			return f
		}
		if stem(f.path) == path.Base(wanted) || path.Base(f.path) == path.Base(wanted) {
			same = append(same, f)
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	return nil
}

// inline creates a compiled config from a config inside the file or a data: URL.
func (i *importer) inline(f *file, n int, l *link) {
	text := []byte(l.text)
	if l.text == "" {
		contents, err := machineconfig.Contents(ign.Resource{Source: &l.source, Compression: &l.compression})
		if err != nil || l.source == "" {
			f.setBad(l.line, "it merges a config that is not in the tree, and Bunsen fetches none: save the config "+
				"as a file, and merge it with `local:`")
			return
		}
		text = contents
	}
	name := fmt.Sprintf("%s-merge-%d.ign", strings.TrimSuffix(f.path, path.Ext(f.path)), n+1)
	l.target = &file{path: name, shown: f.shown, source: text}
	i.files[fmt.Sprintf(":%s:%d", f.path, n)] = l.target
}

// setBad keeps a file out of the repository. Only the first reason is recorded.
func (f *file) setBad(line int, why string) {
	if f.bad == nil {
		f.bad, f.badLine = fmt.Errorf("%s", why), line
	}
}

// readLocal returns a file of the directory of local files, and whether it is executable.
func readLocal(files source.Tree, local string) (contents []byte, executable bool, err error) {
	name, err := localPath(files, local)
	if err != nil {
		return nil, false, err
	}
	info, err := fs.Stat(files.FS, name)
	if err != nil {
		return nil, false, fmt.Errorf("there is no such file")
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("it is not a file")
	}
	contents, err = fs.ReadFile(files.FS, name)
	if err != nil {
		return nil, false, fmt.Errorf("it cannot be read")
	}
	return contents, info.Mode()&0o111 != 0, nil
}

// localPath checks a path in the directory of local files and cleans it.
func localPath(files source.Tree, local string) (string, error) {
	name := path.Clean(local)
	if local == "" || path.IsAbs(local) || !fs.ValidPath(name) || strings.ContainsAny(local, "\x00\n") {
		return "", fmt.Errorf("it is not a path below the directory of local files")
	}
	if why := refusedIn(files.Refused, name); why != "" {
		return "", fmt.Errorf("it is, or lies below, a %s, which is not followed", why)
	}
	return name, nil
}

// refusedIn returns the reason why a path of a directory is not read, or "".
func refusedIn(refused []source.Refusal, p string) string {
	for _, r := range refused {
		if p == r.Path || strings.HasPrefix(p, r.Path+"/") {
			return r.Why
		}
	}
	return ""
}
