package lsp

import (
	"context"
	"fmt"
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
	"github.com/bunsen-os/bunsen/transpile"
)

// repository renders one folder with pools/ again after each change, in a goroutine of its own.
type repository struct {
	*server
	conn   *jsonrpc2.Conn
	dir    string
	copy   Copy
	memory review.Renderings
	// of the checks: a run keeps those that it used
	answers answers
	ignored func(string) bool

	woken chan struct{}
	stop  context.CancelFunc
	// current is the last rendering; nil before the first one ends.
	current atomic.Pointer[snapshot]
	mu      sync.Mutex
	changed chan struct{}
	// published are the diagnostics that the editor has, by file.
	published map[string][]diagnostic
	// failed: the last run had no rendering.
	failed bool
}

// patience is how long the end of a server waits for what it does.
const patience = 2 * time.Second

// pause is how long a repository waits after a change for the next one.
const pause = 30 * time.Millisecond

// openRepository opens a folder; ownGit says whether the ignored files of its git repository may be read.
func openRepository(s *server, conn *jsonrpc2.Conn, root *os.Root, dir string, ownGit bool) (*repository, error) {
	files, err := s.Open(root)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan struct{})
	r := &repository{
		server: s, conn: conn, dir: dir, copy: files, woken: make(chan struct{}, 1), changed: make(chan struct{}),
		published: map[string][]diagnostic{}, ignored: func(string) bool { return false },
	}
	r.stop = func() {
		stop()
		select {
		case <-done:
		case <-time.After(patience): // The editor reads no more, so a message to it never ends.
			_ = files.Close() // The process ends.
		}
	}
	if s.Ignored != nil && ownGit {
		r.ignored = s.Ignored(dir)
	}
	r.memory.AllowLargeFiles(s.LargeFiles)
	go func() {
		defer close(done)
		r.run(ctx)
		if err := files.Close(); err != nil {
			s.logf("removing the copy of the repository: %v", err)
		}
	}()
	return r, nil
}

// hasOwnGit reports whether a folder below a root is in a git work tree that is within the root, with its repository in
// it, so that reading which files git ignores reads nothing elsewhere.
func hasOwnGit(root *os.Root, folder string) bool {
	for ; ; folder = filepath.Dir(folder) {
		if info, err := root.Lstat(filepath.Join(folder, ".gitignore")); err == nil && info.Size() > maxGitFile {
			return false
		}
		if _, err := root.Lstat(filepath.Join(folder, ".git")); err == nil {
			return isWhole(root, filepath.Join(folder, ".git"))
		}
		if folder == "." {
			return false
		}
	}
}

// isWhole reports whether the directory of a git repository has its parts as files and directories of its own.
func isWhole(root *os.Root, git string) bool {
	for name, isDir := range map[string]bool{
		".": true, "HEAD": false, "config": false, "index": false, "info": true, "objects": true, "refs": true,
	} {
		info, err := root.Lstat(filepath.Join(git, name))
		if err != nil || info.IsDir() != isDir || !isDir && (!info.Mode().IsRegular() || info.Size() > maxGitFile) {
			return false
		}
	}
	if _, err := root.Lstat(filepath.Join(git, "commondir")); err == nil {
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
	tree, err := r.copy.Tree(ctx, texts)
	if err != nil {
		return err
	}
	earlier := r.current.Load()
	if !r.failed && earlier != nil && earlier.tree.Digest == tree.Digest &&
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
	r.answers = answers{known: r.answers.used, used: map[string][]byte{}}
	now.report = review.CheckTree(tree, res, rendering, review.SecretOwner{Ignored: r.ignored}, r.answers).Report
	r.mu.Lock()
	r.current.Store(now)
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	r.publish(ctx, now, open, now.report)
	return nil
}

// answers are results of the last run and of this one, in memory.
type answers struct{ known, used map[string][]byte }

// Get returns a result of the last run or of this one.
func (a answers) Get(key string) ([]byte, bool) {
	value, has := a.used[key]
	if !has {
		if value, has = a.known[key]; has {
			a.used[key] = value
		}
	}
	return value, has
}

// Put adds a result of this run.
func (a answers) Put(key string, value []byte) { a.used[key] = value }

// publish shows a report in the editor: the problems of each file, and none in files that have no more. The report is
// of the given texts; the editor may have newer ones by now.
func (r *repository) publish(ctx context.Context, now *snapshot, open map[string]buffer,
	report transpile.Report,
) {
	byFile := map[string][]diagnostic{}
	for _, e := range report {
		file := placeOf(now, open, e)
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
		d := newDocument(file, now.text(file), r.wide)
		if b, isOpen := open[file]; isOpen {
			d = newDocument(file, b.text, r.wide)
		}
		byFile[file] = append(byFile[file], diagnosticOf(d, e))
	}
	all := slices.Collect(maps.Keys(open))
	for _, file := range slices.AppendSeq(all, maps.Keys(r.published)) {
		if byFile[file] == nil {
			byFile[file] = []diagnostic{}
		}
	}
	was := r.published
	r.published = map[string][]diagnostic{}
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
		found := byFile[file]
		if len(found) > 0 {
			r.published[file] = found
		}
		message := object{"uri": r.uri(r, file), "diagnostics": found}
		if b, isOpen := open[file]; isOpen {
			message["version"] = b.version
		} else if slices.Equal(was[file], found) {
			continue
		}
		if err := r.conn.Notify(ctx, "textDocument/publishDiagnostics", message); err != nil {
			r.logf("publishing the problems of %s: %v", file, err)
		}
	}
}

// placeOf returns the file at which an editor shows an entry: its own, or if it is about a directory or the whole
// repository, a kustomization of the directory, or the first text that the editor has open.
func placeOf(now *snapshot, open map[string]buffer, e transpile.Entry) string {
	if _, isOpen := open[e.File]; isOpen || now.has(e.File) || e.Line > 0 {
		return e.File
	}
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if f := path.Join(e.File, name); now.has(f) {
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
