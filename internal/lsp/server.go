package lsp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Options are what a server does not read from the editor.
type Options struct {
	// Version of the program.
	Version string
	// LargeFiles: the cluster has a content store.
	LargeFiles bool
	// Ignored returns a function that says which files git leaves out of commits, from the top of a work tree, as the
	// work tree is at the time of the call; nil: none.
	Ignored func(top string) func(file string) bool
	// Open opens a folder with pools/, which it closes with the copy.
	Open func(folder *os.Root) (Copy, error)
	// Log gets what goes wrong inside of the server.
	Log io.Writer
	// Linger is how long a folder stays rendered after its last text was closed; 0: a minute.
	Linger time.Duration
}

// Copy is a private copy of a folder, in which unsaved texts stand in place of files.
type Copy interface {
	// Tree brings the copy up to date. The texts are by the path of their file in the folder.
	Tree(ctx context.Context, texts map[string]string) (source.Tree, error)
	// Close removes the copy.
	Close() error
}

// ErrNoShutdown is the error of Serve if the editor said exit, and not shutdown before it.
var ErrNoShutdown = errors.New("the editor said exit without shutdown")

// Serve answers an editor until it says exit, the streams end or the context does.
func Serve(ctx context.Context, streams io.ReadWriteCloser, o Options) error {
	o.Linger = cmp.Or(o.Linger, time.Minute)
	ctx, stop := context.WithCancel(ctx)
	return newServer(ctx, stop, o).serve(streams)
}

func newServer(ctx context.Context, stop context.CancelFunc, o Options) *server {
	return &server{
		Options: o, ctx: ctx, stop: stop, turn: make(chan struct{}, 1), cancels: map[jsonrpc2.ID]context.CancelFunc{},
		repositories: map[string]*repository{}, buffers: map[string]*buffer{}, wide: true,
	}
}

func (s *server) serve(streams io.ReadWriteCloser) error {
	defer s.close()
	ctx := s.ctx
	conn := jsonrpc2.NewConn(ctx, jsonrpc2.NewBufferedStream(streams, jsonrpc2.VSCodeObjectCodec{}), s,
		jsonrpc2.SetLogger(quiet{}))
	defer conn.Close()
	select {
	case <-conn.DisconnectNotify():
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == failed {
		return ErrNoShutdown
	}
	return nil
}

// quiet drops what the library logs: an editor that closes its streams is no problem.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(string, ...any) {}

// phase is how far the conversation with the editor is.
type phase int

const (
	starting phase = iota
	running
	// shutDown: only exit may follow.
	shutDown
	// failed: the editor said exit without shutdown.
	failed
)

type server struct {
	Options
	ctx  context.Context
	stop context.CancelFunc
	// wide, watches, versioned and applies follow from what the editor can do, and never change once it is running.
	wide, watches, versioned, applies bool
	// turn is held by the one question that is answered.
	turn chan struct{}
	// ending are repositories that end.
	ending sync.WaitGroup

	mu    sync.Mutex
	phase phase
	// cancels end the questions that are not answered yet.
	cancels map[jsonrpc2.ID]context.CancelFunc
	// folders are those that the editor opened, as absolute paths.
	folders []string
	// repositories by the path of their folder with pools/
	repositories map[string]*repository
	// buffers by URI
	buffers map[string]*buffer
}

// buffer is a text of the editor.
type buffer struct {
	uri, text string
	version   int
	// of is the repository that it belongs to; nil outside of one. file is its path there.
	of   *repository
	file string
}

// close ends all repositories at the same time.
func (s *server) close() {
	s.stop()
	s.mu.Lock()
	for dir := range s.repositories {
		s.end(dir)
	}
	s.mu.Unlock()
	s.ending.Wait()
}

// end ends a repository in the background.
func (s *server) end(dir string) {
	r := s.repositories[dir]
	delete(s.repositories, dir)
	if r.idle != nil {
		r.idle.Stop()
	}
	s.ending.Go(r.stop)
}

func (s *server) logf(format string, args ...any) {
	if s.Log != nil {
		fmt.Fprintf(s.Log, format+"\n", args...)
	}
}

// later answers a question beside the messages that follow it.
type later func(ctx context.Context) (any, error)

// Handle answers one message. A panic ends the message, and not the server.
func (s *server) Handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) {
	answer := func(result any, err error) {
		if r.Notif {
			if err != nil {
				s.logf("%s: %v", r.Method, err)
			}
			return
		}
		var known *jsonrpc2.Error
		switch {
		case err == nil:
			err = conn.Reply(ctx, r.ID, result)
		case errors.As(err, &known):
			err = conn.ReplyWithError(ctx, r.ID, known)
		default:
			err = conn.ReplyWithError(ctx, r.ID, &jsonrpc2.Error{
				Code: jsonrpc2.CodeInternalError, Message: err.Error(),
			})
		}
		if err != nil {
			s.logf("answering %s: %v", r.Method, err)
		}
	}
	result, err := isolated(r.Method, func() (any, error) { return s.handle(ctx, conn, r) })
	question, isLater := result.(later)
	if err != nil || !isLater {
		answer(result, err)
		return
	}
	ctx, stop := context.WithCancel(s.ctx)
	s.mu.Lock()
	s.cancels[r.ID] = stop
	s.mu.Unlock()
	go func() {
		defer stop()
		result, err := isolated(r.Method, func() (any, error) { return question(ctx) })
		if ctx.Err() != nil {
			err = &jsonrpc2.Error{Code: codeCancelled, Message: "the editor asks no more"}
		}
		s.mu.Lock()
		delete(s.cancels, r.ID)
		s.mu.Unlock()
		answer(result, err)
	}()
}

func isolated(method string, do func() (any, error)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("answering %s: %v", method, fault.NewPanic(p))
		}
	}()
	return do()
}

// admit returns an error for a message that may not come now.
func (s *server) admit(r *jsonrpc2.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == "exit", s.phase == running && r.Method != "initialize",
		s.phase == starting && r.Method == "initialize":
		return nil
	case s.phase == starting:
		return &jsonrpc2.Error{Code: codeNotInitialized, Message: "the first request is initialize"}
	case s.phase == running:
		return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: "the server is initialized already"}
	}
	return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: "after shutdown, only exit may follow"}
}

// params reads the parameters of a message.
func params[T any](r *jsonrpc2.Request) (out T, err error) {
	if r.Params == nil {
		return out, nil
	}
	if err := json.Unmarshal(*r.Params, &out); err != nil {
		return out, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
	}
	return out, nil
}

// handle returns the answer of a message, or a function for it. A question is about the text at this time, also if the
// next message changes it.
func (s *server) handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	if err := s.admit(r); err != nil {
		return nil, err
	}
	switch r.Method {
	case "initialize":
		p, err := params[initializeParams](r)
		if err != nil {
			return nil, err
		}
		return s.initialize(p), nil
	case "initialized":
		if s.watches {
			go s.watch(ctx, conn)
		}
		return nil, nil
	case "shutdown":
		s.enter(shutDown)
		return nil, nil
	case "exit":
		s.enter(failed)
		return nil, conn.Close()
	case "$/cancelRequest":
		p, err := params[cancelParams](r)
		if err == nil {
			s.cancel(p.ID)
		}
		return nil, err
	case "textDocument/didOpen":
		p, err := params[documentParams](r)
		if err == nil {
			s.open(conn, p.TextDocument)
		}
		return nil, err
	case "textDocument/didChange":
		p, err := params[changeParams](r)
		if err == nil {
			s.change(conn, p)
		}
		return nil, err
	case "textDocument/didClose":
		p, err := params[documentParams](r)
		if err == nil {
			s.forget(p.TextDocument.URI)
		}
		return nil, err
	case "textDocument/didSave":
		s.wakeAll(conn)
		return nil, nil
	case "workspace/didChangeWatchedFiles":
		p, err := params[watchedParams](r)
		if err == nil && p.matter() {
			s.wakeAll(conn)
		}
		return nil, err
	case "workspace/didChangeWorkspaceFolders":
		p, err := params[foldersParams](r)
		if err == nil {
			s.changeFolders(conn, p)
		}
		return nil, err
	case "textDocument/hover", "textDocument/completion", "textDocument/definition", "textDocument/references":
		p, err := params[positionParams](r)
		if err != nil {
			return nil, err
		}
		return s.ask(r.Method, p), nil
	case "textDocument/codeAction":
		p, err := params[codeActionParams](r)
		if err != nil {
			return nil, err
		}
		return s.codeActions(p), nil
	case "workspace/executeCommand":
		p, err := params[executeParams](r)
		if err != nil {
			return nil, err
		}
		return s.execute(conn, p), nil
	}
	if r.Notif {
		return nil, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: r.Method}
}

// enter begins a phase.
func (s *server) enter(to phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to != failed || s.phase != shutDown {
		s.phase = to
	}
}

// cancel ends a question that is not answered yet.
func (s *server) cancel(id jsonrpc2.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop := s.cancels[id]; stop != nil {
		stop()
	}
}

// Commands of the server: one shows what the user types in a terminal, because the server runs nothing, and one
// encrypts a text of the editor.
const (
	showCommand    = "bunsen.show"
	encryptCommand = "bunsen.encrypt"
)

func (s *server) initialize(p initializeParams) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range p.WorkspaceFolders {
		s.addFolder(f.URI)
	}
	if len(p.WorkspaceFolders) == 0 && p.RootURI != "" {
		s.addFolder(p.RootURI)
	}
	encoding := "utf-16"
	if s.wide = !slices.Contains(p.Capabilities.General.PositionEncodings, "utf-8"); !s.wide {
		encoding = "utf-8"
	}
	s.watches = p.Capabilities.Workspace.DidChangeWatchedFiles.DynamicRegistration
	s.versioned = p.Capabilities.Workspace.WorkspaceEdit.DocumentChanges
	s.applies = p.Capabilities.Workspace.ApplyEdit
	s.phase = running
	return object{
		"serverInfo": object{"name": "bunsen", "version": s.Version},
		"capabilities": object{
			"positionEncoding":       encoding,
			"textDocumentSync":       object{"openClose": true, "change": 2, "save": true},
			"hoverProvider":          true,
			"definitionProvider":     true,
			"referencesProvider":     true,
			"completionProvider":     object{"triggerCharacters": []string{"$", "{", "/", " "}},
			"codeActionProvider":     object{"codeActionKinds": []string{"quickfix"}},
			"executeCommandProvider": object{"commands": []string{showCommand, encryptCommand}},
			"workspace": object{"workspaceFolders": object{
				"supported": true, "changeNotifications": true,
			}},
		},
	}
}

// addFolder adds a folder of the editor.
func (s *server) addFolder(uri string) {
	if dir, ok := pathOf(uri); ok && !slices.Contains(s.folders, dir) {
		s.folders = append(s.folders, dir)
	}
}

func (s *server) changeFolders(conn *jsonrpc2.Conn, p foldersParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range p.Event.Removed {
		if dir, ok := pathOf(f.URI); ok {
			s.folders = slices.DeleteFunc(s.folders, func(have string) bool { return have == dir })
		}
	}
	for _, f := range p.Event.Added {
		s.addFolder(f.URI)
	}
	s.sweep()
	for _, b := range s.buffers {
		s.bind(conn, b)
	}
	s.sweep()
}

// sweep ends the repositories whose folder the editor closed. Those without a text end after a while: an editor closes
// a text before it opens the next one.
func (s *server) sweep() {
	used := map[*repository]bool{}
	for _, b := range s.buffers {
		used[b.of] = true
	}
	for dir, r := range s.repositories {
		switch {
		case !slices.Contains(s.folders, r.top):
			s.end(dir)
		case !used[r] && r.idle == nil:
			r.idle = time.AfterFunc(s.Linger, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.repositories[dir] == r && r.idle != nil {
					s.end(dir)
				}
			})
		}
	}
}

// watch asks the editor to report changes of files that it does not have open.
func (s *server) watch(ctx context.Context, conn *jsonrpc2.Conn) {
	var ignored any
	err := conn.Call(ctx, "client/registerCapability", object{"registrations": []object{{
		"id": "files", "method": "workspace/didChangeWatchedFiles",
		"registerOptions": object{"watchers": []object{{"globPattern": "**/*"}}},
	}}}, &ignored)
	if err != nil {
		s.logf("watching files: %v", err)
	}
}

// open takes a text of the editor.
func (s *server) open(conn *jsonrpc2.Conn, t textDocument) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &buffer{uri: t.URI, text: t.Text, version: t.Version}
	s.buffers[t.URI] = b
	s.bind(conn, b)
	s.sweep()
}

// bind finds the repository of a text, and lets it render.
func (s *server) bind(conn *jsonrpc2.Conn, b *buffer) {
	b.of, b.file = nil, ""
	file, ok := pathOf(b.uri)
	if !ok {
		return
	}
	// The innermost folder of the editor counts first, and those around it if it is within a repository.
	folders := slices.DeleteFunc(slices.Clone(s.folders), func(f string) bool { return !isWithin(f, file) })
	slices.SortFunc(folders, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, top := range folders {
		if rel, name, ok := s.find(top, file); ok {
			b.of, b.file = s.repository(conn, top, rel), name
			b.of.wake()
			return
		}
	}
}

// isWithin reports whether a path is below a directory.
func isWithin(dir, file string) bool {
	const separator = string(filepath.Separator)
	return strings.HasPrefix(file, strings.TrimSuffix(dir, separator)+separator)
}

// find returns the folder with pools/ of a file within a folder of the editor, and the path of the file there.
func (s *server) find(top, file string) (rel, name string, ok bool) {
	root, err := os.OpenRoot(top)
	if err != nil {
		s.logf("opening the folder: %v", err)
		return "", "", false
	}
	defer root.Close()
	below, err := filepath.Rel(top, file)
	if err != nil || isForeign(filepath.ToSlash(below)) {
		return "", "", false
	}
	for _, dir := range foldersAbove(filepath.ToSlash(below)) {
		dir = filepath.FromSlash(dir)
		// The root refuses links that lead out of it.
		if info, err := root.Lstat(filepath.Join(dir, poolsFolder)); err == nil && info.IsDir() {
			name, err := filepath.Rel(dir, below)
			return dir, filepath.ToSlash(name), err == nil
		}
	}
	return "", "", false
}

func (s *server) repository(conn *jsonrpc2.Conn, top, rel string) *repository {
	dir := filepath.Join(top, rel)
	r := s.repositories[dir]
	if r == nil {
		r = s.newRepository(conn, top, rel)
		s.repositories[dir] = r
	}
	if r.idle != nil {
		r.idle.Stop()
		r.idle = nil
	}
	return r
}

func (s *server) change(conn *jsonrpc2.Conn, p changeParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buffers[p.TextDocument.URI]
	if b == nil {
		return
	}
	b.version = p.TextDocument.Version
	for _, c := range p.ContentChanges {
		if c.Range == nil {
			b.text = c.Text
		} else {
			b.text = newDocument(b.file, b.text, s.wide).apply(*c.Range, c.Text)
		}
	}
	if b.of == nil {
		s.bind(conn, b)
	} else {
		b.of.wake()
	}
}

func (s *server) forget(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buffers[uri]
	delete(s.buffers, uri)
	if b != nil && b.of != nil {
		b.of.wake()
	}
	s.sweep()
}

// matter reports whether a change of files may change a repository.
func (p watchedParams) matter() bool {
	for _, c := range p.Changes {
		if file, ok := pathOf(c.URI); !ok || !isForeign(filepath.ToSlash(file)) {
			return true
		}
	}
	return len(p.Changes) == 0
}

// wakeAll lets all repositories with texts render. A text outside of one may have got one.
func (s *server) wakeAll(conn *jsonrpc2.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.buffers {
		if b.of == nil {
			s.bind(conn, b)
		} else {
			b.of.wake()
		}
	}
}

// opened returns the texts of the editor in a repository, by their files, as they are now.
func (s *server) opened(of *repository) map[string]buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]buffer{}
	for _, b := range s.buffers {
		if b.of == of {
			out[b.file] = *b
		}
	}
	return out
}

// uri returns how the editor names a file of a repository.
func (s *server) uri(of *repository, file string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.buffers {
		if b.of == of && b.file == file {
			return b.uri
		}
	}
	return uriOf(filepath.Join(of.dir, filepath.FromSlash(file)))
}

// buffer returns a text of the editor as it is now.
func (s *server) buffer(uri string) (buffer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buffers[uri]
	if b == nil {
		return buffer{}, false
	}
	return *b, true
}

// last returns the last rendering of the repository of a text; nil if there is none yet.
func (b buffer) last() *snapshot {
	if b.of == nil {
		return nil
	}
	return b.of.current.Load()
}

// ask answers one question about a position at a time: the editor forgets most of them while the user goes on.
func (s *server) ask(method string, p positionParams) later {
	b, ok := s.buffer(p.TextDocument.URI)
	return func(ctx context.Context) (any, error) {
		if !ok {
			return nil, nil
		}
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return s.answer(method, b, p)
	}
}

func (s *server) answer(method string, b buffer, p positionParams) (any, error) {
	d, last := newDocument(b.file, b.text, s.wide), b.last()
	switch method {
	case "textDocument/hover":
		text, ok := last.hoverAt(d, p.Position)
		if !ok {
			return nil, nil
		}
		return hover{Contents: markdown(text)}, nil
	case "textDocument/completion":
		offers, where := last.completeAt(d, p.Position)
		items := make([]completionItem, len(offers))
		for i, o := range offers {
			items[i] = completionItem{
				Label: o.label, Kind: o.kind, Detail: o.detail, TextEdit: textEdit{where, o.insert},
			}
			if o.about != "" {
				about := markdown(o.about)
				items[i].Documentation = &about
			}
		}
		return items, nil
	case "textDocument/definition":
		return s.locations(b, last, last.definitionAt(d, p.Position)), nil
	}
	return s.locations(b, last, last.referencesAt(d, p.Position)), nil
}

func (s *server) locations(b buffer, last *snapshot, all []origin.Pos) []location {
	out := make([]location, 0, len(all))
	for _, p := range all {
		out = append(out, location{s.uri(b.of, p.File), s.lines(b.of, last, p.File).word(max(1, p.Line), p.Column)})
	}
	return out
}

// lines returns a file as the editor has it, or else as the tree has it.
func (s *server) lines(of *repository, last *snapshot, file string) document {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.buffers {
		if b.of == of && b.file == file {
			return newDocument(file, b.text, s.wide)
		}
	}
	return newDocument(file, last.text(file), s.wide)
}

// settle is how long an answer about problems waits for those of the present text.
const settle = 900 * time.Millisecond

func (s *server) codeActions(p codeActionParams) later {
	b, ok := s.buffer(p.TextDocument.URI)
	return func(ctx context.Context) (any, error) {
		if !ok || b.of == nil {
			return []codeAction{}, nil
		}
		ctx, stop := context.WithTimeout(ctx, settle)
		defer stop()
		last := b.last()
		for !last.isOf(b.file, b.text) {
			if last = b.of.next(ctx, last); ctx.Err() != nil {
				return []codeAction{}, nil
			}
		}
		return s.actionsOf(b, last, p.Range), nil
	}
}

// actionsOf lists the corrections of the problems in some lines of a text.
func (s *server) actionsOf(b buffer, last *snapshot, lines span) []codeAction {
	d := newDocument(b.file, b.text, s.wide)
	out := []codeAction{}
	for _, e := range last.report {
		if e.File != b.file {
			continue
		}
		shown := diagnosticOf(d, e)
		if shown.Range.End.Line < lines.Start.Line || shown.Range.Start.Line > lines.End.Line {
			continue
		}
		for _, c := range corrections(d, e) {
			a := codeAction{Title: c.title, Kind: "quickfix", Diagnostics: []diagnostic{shown}}
			if len(c.edits) > 0 {
				a.Edit, a.IsPreferred = s.edit(b, c.edits), true
			} else if _, ok := last.encryption(b.file); c.encrypts && ok && s.applies {
				a.Title = "Encrypt the file by its creation rule"
				a.Command = &command{Title: a.Title, Command: encryptCommand, Arguments: []any{b.uri}}
			} else {
				a.Command = &command{Title: c.title, Command: showCommand, Arguments: []any{c.command}}
			}
			out = append(out, a)
		}
	}
	return out
}

// edit returns edits of a text: of its version alone, if the editor can tell versions.
func (s *server) edit(b buffer, edits []textEdit) *workspaceEdit {
	if !s.versioned {
		return &workspaceEdit{Changes: map[string][]textEdit{b.uri: edits}}
	}
	out := documentEdit{Edits: edits}
	out.TextDocument.URI, out.TextDocument.Version = b.uri, b.version
	return &workspaceEdit{DocumentChanges: []documentEdit{out}}
}

func (s *server) execute(conn *jsonrpc2.Conn, p executeParams) later {
	var argument string
	known := slices.Contains([]string{showCommand, encryptCommand}, p.Command) && len(p.Arguments) == 1 &&
		json.Unmarshal(p.Arguments[0], &argument) == nil
	b, isOpen := s.buffer(argument)
	return func(ctx context.Context) (any, error) {
		switch {
		case !known || p.Command == encryptCommand && (!isOpen || !s.applies):
			return nil, &jsonrpc2.Error{
				Code: jsonrpc2.CodeInvalidParams, Message: "there is no command " + p.Command + " with these arguments",
			}
		case p.Command == showCommand:
			return nil, conn.Notify(ctx, "window/showMessage", object{
				"type": messageInfo, "message": "Type it in a terminal, in the folder of pools/: " + argument,
			})
		}
		text, err := b.last().encrypt(b.file, b.text, sops.Writer{Random: rand.Reader, Now: time.Now()})
		if err != nil {
			return nil, err
		}
		whole := span{End: position{Line: strings.Count(b.text, "\n") + 1}}
		var applied struct {
			Applied       bool   `json:"applied"`
			FailureReason string `json:"failureReason"`
		}
		err = conn.Call(ctx, "workspace/applyEdit", object{
			"label": "Encrypt the file", "edit": s.edit(b, []textEdit{{whole, text}}),
		}, &applied)
		if err == nil && !applied.Applied {
			err = fmt.Errorf("the editor did not change %s: %s", b.file,
				cmp.Or(applied.FailureReason, "the text may have changed; try it again"))
		}
		return nil, err
	}
}

// diagnosticOf shows an entry of a report at its place in a text.
func diagnosticOf(d document, e transpile.Entry) diagnostic {
	out := diagnostic{
		Range: d.word(e.Line, e.Column), Severity: severityWarning, Code: e.Rule, Source: "bunsen", Message: e.Message,
	}
	if e.Severity == transpile.Fatal {
		out.Severity = severityError
	}
	return out
}
