package lsp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/sops"
	sopsdocument "github.com/bunsen-os/bunsen/internal/sops/document"
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
	// Ignored returns a function that says which files of a folder git leaves out of commits; nil: none.
	Ignored func(folder string) func(file string) bool
	// Open opens a folder with pools/, which it closes with the copy.
	Open func(folder *os.Root) (Copy, error)
	// Log gets what goes wrong inside of the server.
	Log io.Writer
}

// Copy is a private copy of a folder, in which unsaved texts stand in place of files.
type Copy interface {
	// Tree brings the copy up to date. The texts are by the path of their file in the folder.
	Tree(ctx context.Context, texts map[string]string) (source.Tree, error)
	// Close removes the copy.
	Close() error
}

// Serve answers an editor until it says exit, the streams end or the context does.
func Serve(ctx context.Context, streams io.ReadWriteCloser, o Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &server{
		Options: o, ctx: ctx, repositories: map[string]*repository{}, buffers: map[string]*buffer{}, wide: true,
	}
	defer s.close()
	conn := jsonrpc2.NewConn(ctx, jsonrpc2.NewBufferedStream(streams, jsonrpc2.VSCodeObjectCodec{}), s,
		jsonrpc2.SetLogger(quiet{}))
	defer conn.Close()
	select {
	case <-conn.DisconnectNotify():
	case <-ctx.Done():
	}
	return nil
}

// quiet drops what the library logs: an editor that closes its streams is no problem.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(string, ...any) {}

type server struct {
	Options
	ctx context.Context

	mu sync.Mutex
	// folders are those that the editor opened, as absolute paths.
	folders []string
	wide    bool
	watches bool
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

func (s *server) close() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.repositories))
	s.mu.Unlock()
	for _, r := range all {
		r.stop()
	}
}

func (s *server) logf(format string, args ...any) {
	if s.Log != nil {
		fmt.Fprintf(s.Log, format+"\n", args...)
	}
}

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
	if r.Method == "textDocument/codeAction" {
		// It waits until the problems of the present text are known.
		go func() { answer(s.isolated(ctx, conn, r)) }()
		return
	}
	answer(s.isolated(ctx, conn, r))
}

func (s *server) isolated(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("answering %s: %v", r.Method, fault.NewPanic(p))
		}
	}()
	return s.handle(ctx, conn, r)
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

func (s *server) handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	switch r.Method {
	case "initialize":
		p, err := params[initializeParams](r)
		return s.initialize(p), err
	case "initialized":
		if s.watches {
			go s.watch(ctx, conn)
		}
		return nil, nil
	case "shutdown":
		return nil, nil
	case "exit":
		return nil, conn.Close()
	case "textDocument/didOpen":
		p, err := params[documentParams](r)
		if err == nil {
			s.open(conn, p.TextDocument)
		}
		return nil, err
	case "textDocument/didChange":
		p, err := params[changeParams](r)
		if err == nil {
			s.change(p)
		}
		return nil, err
	case "textDocument/didClose":
		p, err := params[documentParams](r)
		if err == nil {
			s.forget(p.TextDocument.URI)
		}
		return nil, err
	case "textDocument/didSave", "workspace/didChangeWatchedFiles":
		s.wakeAll()
		return nil, nil
	case "workspace/didChangeWorkspaceFolders":
		p, err := params[foldersParams](r)
		if err == nil {
			s.changeFolders(p)
		}
		return nil, err
	case "textDocument/hover", "textDocument/completion", "textDocument/definition", "textDocument/references":
		p, err := params[positionParams](r)
		if err != nil {
			return nil, err
		}
		return s.ask(r.Method, p)
	case "textDocument/codeAction":
		p, err := params[codeActionParams](r)
		if err != nil {
			return nil, err
		}
		return s.codeActions(ctx, p)
	case "workspace/executeCommand":
		p, err := params[executeParams](r)
		if err != nil {
			return nil, err
		}
		return nil, s.execute(ctx, conn, p)
	}
	if r.Notif {
		return nil, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: r.Method}
}

// showCommand shows a command that the user types in a terminal. The server runs none.
const showCommand = "bunsen.show"

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
			"executeCommandProvider": object{"commands": []string{showCommand}},
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

func (s *server) changeFolders(p foldersParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range p.Event.Added {
		s.addFolder(f.URI)
	}
	for _, f := range p.Event.Removed {
		if dir, ok := pathOf(f.URI); ok {
			s.folders = slices.DeleteFunc(s.folders, func(have string) bool { return have == dir })
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

// pathOf returns the path of a URI of a file on this machine.
func pathOf(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path) ||
		strings.ContainsRune(u.Path, 0) {
		return "", false
	}
	return filepath.Clean(filepath.FromSlash(u.Path)), true
}

func uriOf(file string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()
}

// open takes a text of the editor.
func (s *server) open(conn *jsonrpc2.Conn, t textDocument) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &buffer{uri: t.URI, text: t.Text, version: t.Version}
	if file, ok := pathOf(t.URI); ok {
		b.of, b.file = s.find(conn, file)
	}
	s.buffers[t.URI] = b
	if b.of != nil {
		b.of.wake()
	}
}

// find returns the repository of a file: the nearest folder with pools/, within the folders of the editor.
func (s *server) find(conn *jsonrpc2.Conn, file string) (*repository, string) {
	top := ""
	for _, f := range s.folders {
		if isWithin(f, file) && len(f) > len(top) {
			top = f
		}
	}
	if top == "" {
		return nil, ""
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		s.logf("opening the folder: %v", err)
		return nil, ""
	}
	defer root.Close()
	rel, err := filepath.Rel(top, file)
	if err != nil {
		return nil, ""
	}
	for dir := filepath.Dir(rel); ; dir = filepath.Dir(dir) {
		// The root refuses links that lead out of it.
		if info, err := root.Lstat(filepath.Join(dir, "pools")); err == nil && info.IsDir() {
			name, err := filepath.Rel(dir, rel)
			if err != nil {
				return nil, ""
			}
			return s.repository(conn, root, filepath.Join(top, dir), dir), filepath.ToSlash(name)
		}
		if dir == "." {
			return nil, ""
		}
	}
}

func isWithin(dir, file string) bool {
	return dir == "/" || strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+string(filepath.Separator))
}

func (s *server) repository(conn *jsonrpc2.Conn, top *os.Root, dir, rel string) *repository {
	if r := s.repositories[dir]; r != nil {
		return r
	}
	root, err := top.OpenRoot(rel)
	if err != nil {
		s.logf("opening the repository: %v", err)
		return nil
	}
	r, err := openRepository(s, conn, root, dir, hasOwnGit(top, rel))
	if err != nil {
		s.logf("opening the repository: %v", err)
		return nil
	}
	s.repositories[dir] = r
	return r
}

func (s *server) change(p changeParams) {
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
	if b.of != nil {
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
}

func (s *server) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.repositories {
		r.wake()
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

// document returns a text of the editor, and the last rendering of its repository; nil if there is none yet.
func (s *server) document(uri string) (*buffer, document, *snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buffers[uri]
	if b == nil {
		return nil, document{}, nil, false
	}
	d := newDocument(b.file, b.text, s.wide)
	if b.of == nil {
		return b, d, nil, true
	}
	return b, d, b.of.current.Load(), true
}

func (s *server) ask(method string, p positionParams) (any, error) {
	b, d, last, ok := s.document(p.TextDocument.URI)
	if !ok {
		return nil, nil
	}
	switch method {
	case "textDocument/hover":
		text, ok := hoverAt(last, d, p.Position)
		if !ok {
			return nil, nil
		}
		return hover{Contents: markdown(text)}, nil
	case "textDocument/completion":
		offers, where := completeAt(last, d, p.Position)
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
		return s.locations(b, last, definitionAt(last, d, p.Position)), nil
	}
	return s.locations(b, last, referencesAt(last, d, p.Position)), nil
}

func (s *server) locations(b *buffer, last *snapshot, all []origin.Pos) []location {
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

func (s *server) codeActions(ctx context.Context, p codeActionParams) (any, error) {
	b, d, last, ok := s.document(p.TextDocument.URI)
	if !ok || b.of == nil {
		return []codeAction{}, nil
	}
	ctx, stop := context.WithTimeout(ctx, settle)
	defer stop()
	for !last.isOf(b.file, d.text) {
		if last = b.of.next(ctx, last); ctx.Err() != nil {
			return []codeAction{}, nil
		}
	}
	out := []codeAction{}
	for _, e := range last.report {
		if e.File != b.file {
			continue
		}
		shown := diagnosticOf(d, e)
		if shown.Range.End.Line < p.Range.Start.Line || shown.Range.Start.Line > p.Range.End.Line {
			continue
		}
		for _, c := range corrections(d, e) {
			a := codeAction{Title: c.title, Kind: "quickfix", Diagnostics: []diagnostic{shown}}
			switch {
			case len(c.edits) > 0:
				a.Edit, a.IsPreferred = &workspaceEdit{map[string][]textEdit{b.uri: c.edits}}, true
			case c.encrypts:
				if text, ok := encrypt(last, b.file, d.text); ok {
					whole := span{End: position{Line: len(d.lines)}}
					a.Title = "Encrypt the file by its creation rule"
					a.Edit = &workspaceEdit{map[string][]textEdit{b.uri: {{whole, text}}}}
					break
				}
				fallthrough
			default:
				a.Command = &command{Title: c.title, Command: showCommand, Arguments: []any{c.command}}
			}
			out = append(out, a)
		}
	}
	return out, nil
}

// encrypt encrypts a text for the public keys that the repository names for its file; false if it names none.
func encrypt(last *snapshot, file, text string) (string, bool) {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		rules := last.text(path.Join(dir, sops.RulesFile))
		if rules == "" {
			if dir == "." {
				return "", false
			}
			continue
		}
		all, err := sops.ParseRules([]byte(rules))
		if err != nil {
			return "", false
		}
		rule, ok := all.For(strings.TrimPrefix(strings.TrimPrefix(file, dir), "/"))
		if !ok || len(rule.Groups) == 0 || len(rule.Foreign) > 0 {
			return "", false
		}
		policy := sops.Policy{Groups: rule.Groups, Threshold: rule.Threshold, Rules: rule.Values}
		format := string(sopsdocument.FormatOf(file))
		out, err := sops.Writer{Random: rand.Reader, Now: time.Now()}.Encrypt(format, []byte(text), policy)
		return string(out), err == nil
	}
}

func (s *server) execute(ctx context.Context, conn *jsonrpc2.Conn, p executeParams) error {
	if p.Command != showCommand || len(p.Arguments) != 1 {
		return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: "there is no command " + p.Command}
	}
	var text string
	if err := json.Unmarshal(p.Arguments[0], &text); err != nil {
		return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
	}
	return conn.Notify(ctx, "window/showMessage", object{
		"type": messageInfo, "message": "Type it in a terminal, in the folder of pools/: " + text,
	})
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
