package lsp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// repository renders one folder with pools/ again after each change, in a goroutine of its own.
type repository struct {
	*server
	conn *jsonrpc2.Conn
	// top is a folder of the editor. rel leads from there to the folder with pools/, which is dir.
	top, rel, dir string
	memory        review.Renderings
	// of the checks: a run keeps those that it used
	answers *answers

	woken chan struct{}
	stop  func()
	// idle ends the repository, because no text of it is open; nil if one is. The mutex of the server guards it.
	idle *time.Timer
	// current is the last rendering; nil before the first one ends.
	current atomic.Pointer[snapshot]
	mu      sync.Mutex
	changed chan struct{}
	// copy is of folder; nil if the folder could not be opened.
	copy   Copy
	folder fs.FileInfo
	// published are the diagnostics that the editor has, by file.
	published map[string]published
	// failed: the last run had no rendering. unsure: the user knows that ignored files are not known.
	failed, unsure bool
}

// published is what the editor has of one file.
type published struct {
	uri   string
	found []diagnostic
}

// patience is how long the end of a server waits for what it does.
const patience = 2 * time.Second

// pause is how long a repository waits after a change for the next one. An editor sends the messages of one action at
// once, such as those of a rename in several files. What comes later waits for the run, and is one further run.
const pause = 5 * time.Millisecond

// newRepository returns the repository in a folder of the editor, which it opens when it renders.
func (s *server) newRepository(conn *jsonrpc2.Conn, top, rel string) *repository {
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan struct{})
	r := &repository{
		server: s, conn: conn, top: top, rel: rel, dir: filepath.Join(top, rel), woken: make(chan struct{}, 1),
		changed: make(chan struct{}), published: map[string]published{}, answers: new(answers).next(),
	}
	r.stop = func() {
		stop()
		select {
		case <-done:
		case <-time.After(patience): // The editor reads no more, so a message to it never ends.
			r.drop() // The process ends.
		}
	}
	r.memory.AllowLargeFiles(s.LargeFiles)
	go func() {
		defer close(done)
		r.run(ctx)
		r.drop()
		r.clear()
	}()
	return r
}

// drop closes the copy, if there is one.
func (r *repository) drop() {
	r.mu.Lock()
	files := r.copy
	r.copy = nil
	r.mu.Unlock()
	if files == nil {
		return
	}
	if err := files.Close(); err != nil {
		r.logf("removing the copy of the repository: %v", err)
	}
}

// clear takes all problems from the editor.
func (r *repository) clear() {
	for _, was := range r.published {
		if r.server.ctx.Err() != nil {
			return // The editor ends.
		}
		if b, isOpen := r.buffer(was.uri); isOpen && b.of != nil && b.of != r {
			continue // Another repository has it by now.
		}
		message := object{"uri": was.uri, "diagnostics": []diagnostic{}}
		if err := r.conn.Notify(r.server.ctx, "textDocument/publishDiagnostics", message); err != nil {
			r.logf("publishing that there are no problems: %v", err)
		}
	}
}

// tree returns the folder as it is now, with the texts of the editor. The folder may be another one than before, such
// as a new clone, or one that git removed and wrote again.
func (r *repository) tree(ctx context.Context, root *os.Root, texts map[string]string) (source.Tree, error) {
	now, err := root.Stat(r.rel)
	if err != nil {
		r.drop()
		return source.Tree{}, fmt.Errorf("opening the folder: %w", err)
	}
	r.mu.Lock()
	files := r.copy
	r.mu.Unlock()
	if files == nil || !os.SameFile(now, r.folder) {
		r.drop()
		folder, err := root.OpenRoot(r.rel)
		if err != nil {
			return source.Tree{}, fmt.Errorf("opening the folder: %w", err)
		}
		if r.folder, err = folder.Stat("."); err != nil {
			return source.Tree{}, errors.Join(err, folder.Close())
		}
		if files, err = r.Open(folder); err != nil {
			return source.Tree{}, errors.Join(err, folder.Close())
		}
		r.mu.Lock()
		r.copy = files
		r.mu.Unlock()
	}
	return files.Tree(ctx, texts)
}

// ignored returns which files git leaves out of commits. If its rules cannot be read without reading what the editor
// did not open, nobody knows, and then every file that makes no config may be one of them.
func (r *repository) ignored(ctx context.Context, root *os.Root, fragments []transpile.Fragment) func(string) bool {
	if r.Ignored == nil {
		return func(string) bool { return false }
	}
	top, known := gitAround(root, r.top, r.rel)
	switch {
	case !known:
		if !r.unsure {
			r.unsure = true
			r.logf("%s: only bunsen validate can tell which files git ignores there, so secrets in files that are no "+
				"documents are not marked", r.dir)
		}
		counts := map[string]bool{}
		for _, f := range fragments {
			for _, f := range append([]transpile.Fragment{f}, f.Documents...) {
				counts[f.File] = true
				for _, o := range f.Origin.Files {
					counts[o.Path] = true
				}
			}
		}
		// Without a valid state there are no fragments.
		return func(file string) bool { return !counts[file] && !documents.IsButane(file) }
	case top == "":
		return func(string) bool { return false }
	}
	below, err := filepath.Rel(top, r.rel)
	if err != nil {
		return func(string) bool { return false }
	}
	ignored := r.Ignored(filepath.Join(r.top, top))
	return func(file string) bool {
		return ctx.Err() == nil && ignored(path.Join(filepath.ToSlash(below), file))
	}
}

// gitAround returns the top of the git work tree around a folder below a root, "" if there is none. It is known only if
// the work tree is within the root and has its repository in it, so that reading which files git ignores reads nothing
// elsewhere.
func gitAround(root *os.Root, above, folder string) (top string, known bool) {
	for ; ; folder = filepath.Dir(folder) {
		if _, err := root.Lstat(filepath.Join(folder, ".git")); err == nil {
			return folder, isWhole(root, filepath.Join(folder, ".git"))
		}
		if folder == "." {
			break
		}
	}
	for above != filepath.Dir(above) {
		above = filepath.Dir(above)
		if _, err := os.Lstat(filepath.Join(above, ".git")); err == nil {
			return "", false
		}
	}
	return "", true
}

// isWhole reports whether the directory of a git repository has its parts as files and directories of its own.
func isWhole(root *os.Root, git string) bool {
	for name, isDir := range map[string]bool{
		".": true, "HEAD": false, "config": false, "index": false, "info": true, "objects": true, "refs": true,
	} {
		info, err := root.Lstat(filepath.Join(git, name))
		if (name == "index" || name == "info") && errors.Is(err, fs.ErrNotExist) {
			continue // before the first git add, and without templates
		}
		if err != nil || info.IsDir() != isDir || !isDir && (!info.Mode().IsRegular() || info.Size() > maxGitFile) {
			return false
		}
	}
	all, err := fs.ReadDir(root.FS(), filepath.ToSlash(git))
	if err != nil || slices.ContainsFunc(all, func(e fs.DirEntry) bool {
		return e.Name() == "commondir" || strings.HasPrefix(e.Name(), "sharedindex.")
	}) {
		return false
	}
	info, err := root.Lstat(filepath.Join(git, "info", "exclude"))
	return err != nil || info.Mode().IsRegular() && info.Size() <= maxGitFile
}

// maxGitFile is the largest file of git that is read, in bytes: the index of a repository with 300,000 files.
const maxGitFile = 32 << 20

// wake says that a text or a file may have changed.
func (r *repository) wake() {
	select {
	case r.woken <- struct{}{}:
	default: // It is awake.
	}
}

// next waits for another rendering than the given one.
func (r *repository) next(ctx context.Context, than *snapshot) *snapshot {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if now := r.current.Load(); now != than {
			return now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return than
		}
	}
}

func (r *repository) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.woken:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		select {
		case <-r.woken:
		default:
		}
		err := r.render(ctx)
		if r.failed = err != nil; r.failed && ctx.Err() == nil {
			r.logf("%s: %v", r.dir, err)
			r.publish(ctx, r.current.Load(), r.opened(r), transpile.Report{{
				Severity: transpile.Fatal, Rule: "unreadable", Message: err.Error(),
			}})
		}
	}
}

// render renders the present state and publishes its problems. A panic ends this run alone.
func (r *repository) render(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rendering the repository: %v", fault.NewPanic(p))
		}
	}()
	open := r.opened(r)
	texts := make(map[string]string, len(open))
	for file, b := range open {
		texts[file] = b.text
	}
	root, err := os.OpenRoot(r.top)
	if err != nil {
		r.drop()
		return fmt.Errorf("opening the folder: %w", err)
	}
	defer root.Close()
	tree, err := r.tree(ctx, root, texts)
	if err != nil {
		return err
	}
	earlier := r.current.Load()
	if !r.failed && earlier != nil && earlier.tree.Digest == tree.Digest && earlier.tree.Root == tree.Root &&
		slices.Equal(earlier.tree.Refused, tree.Refused) {
		r.publish(ctx, earlier, open, earlier.report) // The editor may have opened another file.
		return nil
	}
	res, rendering, err := r.memory.Render(tree, ctx.Err)
	if err != nil {
		return err
	}
	now := newSnapshot(tree, res, rendering, earlier)
	go now.index()
	r.answers = r.answers.next()
	owner := review.SecretOwner{Ignored: r.ignored(ctx, root, res.Fragments)}
	now.report = review.CheckTree(tree, res, rendering, owner, r.answers).Report
	if ctx.Err() != nil {
		return ctx.Err() // What it says about ignored files does not count.
	}
	r.mu.Lock()
	r.current.Store(now)
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	r.publish(ctx, now, open, now.report)
	return nil
}

// answers are results of the last run and of this one, in memory.
type answers struct {
	mu          sync.Mutex
	known, used map[string][]byte
}

// next returns those of a new run, which knows what the last one used.
func (a *answers) next() *answers { return &answers{known: a.used, used: map[string][]byte{}} }

// Get returns a result of the last run or of this one.
func (a *answers) Get(key string) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	value, has := a.used[key]
	if !has {
		if value, has = a.known[key]; has {
			a.used[key] = value
		}
	}
	return value, has
}

// Put adds a result of this run.
func (a *answers) Put(key string, value []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[key] = value
}

// maxDiagnostics is how many problems of one file the editor gets.
const maxDiagnostics = 1000

// publish shows a report in the editor: the problems of each file, and none in files that have no more. The report is
// of the given texts; the editor may have newer ones by now.
func (r *repository) publish(ctx context.Context, now *snapshot, open map[string]buffer,
	report transpile.Report,
) {
	byFile := map[string][]diagnostic{}
	entries := map[string]transpile.Report{}
	for _, e := range report {
		file := now.placeOf(open, e)
		if file == "" {
			r.logf("%s", e)
			continue
		}
		if file != e.File {
			e.Line, e.Column = 1, 0
			if e.File != "" {
				e.Message = e.File + ": " + e.Message
			}
		}
		entries[file] = append(entries[file], e)
	}
	for file, found := range entries {
		if ctx.Err() != nil {
			return
		}
		text := open[file].text
		if _, isOpen := open[file]; !isOpen {
			text = now.text(file)
		}
		byFile[file] = diagnosticsOf(newDocument(file, text, r.wide), found)
	}
	all := slices.Collect(maps.Keys(open))
	for _, file := range slices.AppendSeq(all, maps.Keys(r.published)) {
		if byFile[file] == nil {
			byFile[file] = []diagnostic{}
		}
	}
	was := r.published
	r.published = map[string]published{}
	// Those of open files come last: whoever waits for them has seen the others.
	order := slices.SortedFunc(maps.Keys(byFile), func(a, b string) int {
		_, aOpen := open[a]
		_, bOpen := open[b]
		if aOpen != bOpen {
			return map[bool]int{true: 1, false: -1}[aOpen]
		}
		return strings.Compare(a, b)
	})
	for _, file := range order {
		if ctx.Err() != nil {
			return
		}
		found, uri := byFile[file], r.uri(r, file)
		if len(found) > 0 {
			r.published[file] = published{uri, found}
		}
		message := object{"uri": uri, "diagnostics": found}
		if b, isOpen := open[file]; isOpen {
			message["version"] = b.version
		} else if slices.Equal(was[file].found, found) {
			continue
		}
		if err := r.conn.Notify(ctx, "textDocument/publishDiagnostics", message); err != nil {
			r.logf("publishing the problems of %s: %v", file, err)
		}
	}
}

// diagnosticsOf shows the first entries of a report about one text, and how many there are besides.
func diagnosticsOf(d document, report transpile.Report) (out []diagnostic) {
	for _, e := range report[:min(len(report), maxDiagnostics-1)] {
		out = append(out, diagnosticOf(d, e))
	}
	switch more := len(report) - len(out); more {
	case 0:
	case 1:
		out = append(out, diagnosticOf(d, report[len(report)-1]))
	default:
		out = append(out, diagnosticOf(d, transpile.Entry{
			Severity: transpile.Fatal, Rule: "more",
			Message: fmt.Sprintf("%d more problems: bunsen validate prints them", more),
		}))
	}
	return out
}

// placeOf returns the file at which an editor shows an entry: its own, or if it is about a directory or the whole
// repository, a kustomization of the directory, or the first text that the editor has open.
func (s *snapshot) placeOf(open map[string]buffer, e transpile.Entry) string {
	if _, isOpen := open[e.File]; isOpen || s.has(e.File) || e.Line > 0 {
		return e.File
	}
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if f := path.Join(e.File, name); s.has(f) {
			return f
		}
	}
	first := ""
	for file := range open {
		if first == "" || file < first {
			first = file
		}
	}
	return first
}
