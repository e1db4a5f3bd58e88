package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// told is a copy of a folder that reports what its file state says, as a problem.
type told struct {
	folder *os.Root
	closed chan<- string
}

// Tree fails with the text of the state.
func (c told) Tree(context.Context, map[string]string) (source.Tree, error) {
	state, err := c.folder.ReadFile("state")
	if err != nil {
		return source.Tree{}, err
	}
	return source.Tree{}, errors.New(string(state))
}

// Close tells which folder it was of.
func (c told) Close() error {
	c.closed <- filepath.Clean(c.folder.Name())
	return c.folder.Close()
}

// session is a conversation of a test with a server.
type session struct {
	*testing.T
	server *server
	conn   *jsonrpc2.Conn
	// said are the messages of the problems of each file, in the order in which they come.
	said   chan string
	closed chan string
	ended  chan error
}

// Handle takes the problems.
func (s *session) Handle(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) {
	var p struct{ Diagnostics []diagnostic }
	if r.Method != "textDocument/publishDiagnostics" || json.Unmarshal(*r.Params, &p) != nil {
		return
	}
	text := ""
	for _, d := range p.Diagnostics {
		text += d.Message
	}
	s.said <- text
}

func begin(t *testing.T, o Options) *session {
	t.Helper()
	ours, theirs := net.Pipe()
	s := &session{T: t, said: make(chan string, 1000), closed: make(chan string, 100), ended: make(chan error, 1)}
	o.Open = func(folder *os.Root) (Copy, error) { return told{folder, s.closed}, nil }
	if o.Linger == 0 {
		o.Linger = time.Hour
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	s.server = newServer(ctx, stop, o)
	go func() { s.ended <- s.server.serve(theirs) }()
	s.conn = jsonrpc2.NewConn(ctx, jsonrpc2.NewBufferedStream(ours, jsonrpc2.VSCodeObjectCodec{}), s,
		jsonrpc2.SetLogger(quiet{}))
	return s
}

func (s *session) call(method string, params any) *jsonrpc2.Error {
	s.Helper()
	var answer any
	err := s.conn.Call(s.Context(), method, params, &answer)
	known := new(jsonrpc2.Error)
	if err != nil && !errors.As(err, &known) {
		s.Fatalf("%s: %v", method, err)
	}
	if err == nil {
		return nil
	}
	return known
}

func (s *session) tell(method string, params any) {
	s.Helper()
	if err := s.conn.Notify(s.Context(), method, params); err != nil {
		s.Fatalf("%s: %v", method, err)
	}
}

func (s *session) initialize(folders ...string) {
	s.Helper()
	if err := s.call("initialize", object{"workspaceFolders": urisOf(folders)}); err != nil {
		s.Fatal(err)
	}
}

func (s *session) folders(added, removed []string) {
	s.Helper()
	s.tell("workspace/didChangeWorkspaceFolders", object{"event": object{
		"added": urisOf(added), "removed": urisOf(removed),
	}})
}

func urisOf(folders []string) []object {
	out := []object{}
	for _, f := range folders {
		out = append(out, object{"uri": uriOf(f)})
	}
	return out
}

func (s *session) open(file string) {
	s.Helper()
	s.tell("textDocument/didOpen", object{"textDocument": object{"uri": uriOf(file), "text": "a: b\n"}})
}

func (s *session) event() {
	s.Helper()
	s.tell("workspace/didChangeWatchedFiles", object{"changes": []object{}})
}

// shows waits until the editor shows a problem.
func (s *session) shows(want string) {
	s.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case got := <-s.said:
			if strings.Contains(got, want) && (got == "") == (want == "") {
				return
			}
		case <-late:
			s.Fatalf("the editor does not show %q", want)
		}
	}
}

// closes waits until the server closes the copy of a folder.
func (s *session) closes(dir string) {
	s.Helper()
	select {
	case got := <-s.closed:
		if got != dir {
			s.Errorf("the server closes %s, want %s", got, dir)
		}
	case <-time.After(20 * time.Second):
		s.Fatalf("the server does not close %s", dir)
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func drop(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderThatIsClonedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "repo")
	put(t, filepath.Join(dir, "pools/a/a.bu"), "")
	put(t, filepath.Join(dir, "state"), "old")
	s := begin(t, Options{})
	s.initialize(dir)
	s.open(filepath.Join(dir, "pools/a/a.bu"))
	s.shows("old")
	drop(t, dir)
	s.event()
	s.shows("no such file")
	put(t, filepath.Join(dir, "state"), "new")
	s.event()
	s.shows("new")
	drop(t, dir)
	put(t, filepath.Join(dir, "state"), "newer")
	s.event()
	s.shows("newer")
}

func TestATextThatWasOpenBeforeItsFolder(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "repo")
	document := filepath.Join(dir, "pools/a/a.bu")
	put(t, filepath.Join(dir, "state"), "rendered")
	s := begin(t, Options{})
	s.initialize()
	s.open(document)
	s.folders([]string{dir}, nil)
	put(t, document, "")
	s.event()
	s.shows("rendered")

	// A folder that the editor closes is not rendered any more.
	s.folders(nil, []string{dir})
	s.closes(dir)
	s.shows("")
	put(t, filepath.Join(dir, "state"), "again")
	s.folders([]string{top}, nil)
	s.shows("again")

	// Only a change of the text says that there is a folder now.
	s.folders(nil, []string{top})
	s.closes(dir)
	drop(t, filepath.Join(dir, "pools"))
	s.folders([]string{top}, nil)
	put(t, document, "")
	s.tell("textDocument/didChange", object{
		"textDocument": object{"uri": uriOf(document), "version": 2}, "contentChanges": []object{{"text": "b: c\n"}},
	})
	s.shows("again")
}

func TestAFolderWithoutTextsEnds(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pools/a/a.bu"), "")
	put(t, filepath.Join(dir, "state"), "rendered")
	s := begin(t, Options{Linger: time.Millisecond})
	s.initialize(dir)
	for range 2 {
		s.open(filepath.Join(dir, "pools/a/a.bu"))
		s.shows("rendered")
		s.tell("textDocument/didClose", object{
			"textDocument": object{"uri": uriOf(filepath.Join(dir, "pools/a/a.bu"))},
		})
		s.closes(dir)
	}
}

func TestAFolderThatIsUsedAgainStays(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "pools/a/a.bu"), filepath.Join(dir, "pools/a/b.bu")
	put(t, first, "")
	put(t, filepath.Join(dir, "state"), "rendered")
	s := begin(t, Options{})
	s.initialize(dir)
	s.open(first)
	s.shows("rendered")
	s.tell("textDocument/didClose", object{"textDocument": object{"uri": uriOf(first)}})
	if err := s.call("textDocument/hover", object{}); err != nil { // The server has read what came before.
		t.Fatal(err)
	}
	drop(t, filepath.Join(dir, "pools"))
	s.open(second)
	if err := s.call("textDocument/hover", object{}); err != nil {
		t.Fatal(err)
	}
	put(t, first, "")
	s.event()
	if err := s.call("textDocument/hover", object{}); err != nil {
		t.Fatal(err)
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if r := s.server.repositories[dir]; r == nil || r.idle != nil {
		t.Errorf("the folder ends although a text is open: %v", r)
	}
}

func TestAPoolThatIsCalledPools(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pools/pools/a.bu"), "")
	put(t, filepath.Join(dir, "pools/worker/pools/a.bu"), "")
	put(t, filepath.Join(dir, "state"), "the top")
	put(t, filepath.Join(dir, "pools/state"), "pools")
	put(t, filepath.Join(dir, "pools/worker/state"), "worker")
	s := begin(t, Options{})
	s.initialize(dir, filepath.Join(dir, "pools/worker/pools"))
	for _, file := range []string{"pools/pools/a.bu", "pools/worker/pools/a.bu"} {
		s.open(filepath.Join(dir, file))
		if got := <-s.said; !strings.Contains(got, "the top") {
			t.Errorf("%s belongs to %q", file, got)
		}
	}
}

func TestTheOrderOfAConversation(t *testing.T) {
	s := begin(t, Options{})
	hover := object{"textDocument": object{"uri": "file:///a"}}
	if err := s.call("textDocument/hover", hover); err == nil || err.Code != codeNotInitialized {
		t.Errorf("before initialize: %v", err)
	}
	s.initialize(t.TempDir())
	if err := s.call("initialize", object{}); err == nil || err.Code != jsonrpc2.CodeInvalidRequest {
		t.Errorf("a second initialize: %v", err)
	}
	if err := s.call("textDocument/hover", hover); err != nil {
		t.Error(err)
	}
	if err := s.call("shutdown", nil); err != nil {
		t.Error(err)
	}
	for _, method := range []string{"textDocument/hover", "shutdown", "initialize"} {
		if err := s.call(method, hover); err == nil || err.Code != jsonrpc2.CodeInvalidRequest {
			t.Errorf("%s after shutdown: %v", method, err)
		}
	}
	s.tell("exit", nil)
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	s = begin(t, Options{})
	s.initialize(t.TempDir())
	s.tell("exit", nil)
	if err := <-s.ended; !errors.Is(err, ErrNoShutdown) {
		t.Errorf("exit without shutdown: %v", err)
	}
}

func TestAQuestionHoldsUpNothing(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "pools/a/a.bu"), "")
	put(t, filepath.Join(dir, "state"), "rendered")
	s := begin(t, Options{})
	s.initialize(dir)
	s.open(filepath.Join(dir, "pools/a/a.bu"))
	s.shows("rendered")
	s.server.turn <- struct{}{} // A long question is being answered.
	id := jsonrpc2.ID{Str: "asked", IsString: true}
	question, err := s.conn.DispatchCall(t.Context(), "textDocument/hover", object{
		"textDocument": object{"uri": uriOf(filepath.Join(dir, "pools/a/a.bu"))},
	}, jsonrpc2.PickID(id))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "state"), "again")
	s.event()
	s.shows("again")
	s.tell("$/cancelRequest", object{"id": "asked"})
	known := new(jsonrpc2.Error)
	if err := question.Wait(t.Context(), nil); !errors.As(err, &known) || known.Code != codeCancelled {
		t.Errorf("the question: %v", err)
	}
	if err := s.call("shutdown", nil); err != nil {
		t.Error(err)
	}
}

func TestAFileShowsAThousandProblems(t *testing.T) {
	var all transpile.Report
	for n := range 2500 {
		all = append(all, transpile.Entry{File: "a", Line: 1 + n%3, Message: fmt.Sprint(n)})
	}
	d := newDocument("a", "a\nb\nc\n", true)
	if got := diagnosticsOf(d, all); len(got) != maxDiagnostics ||
		got[maxDiagnostics-1].Message != "1501 more problems: bunsen validate prints them" {
		t.Errorf("%d problems, the last is %v", len(got), got[len(got)-1])
	}
	if got := diagnosticsOf(d, all[:1000]); len(got) != 1000 || got[999].Message != "999" {
		t.Errorf("%d problems, the last is %v", len(got), got[len(got)-1])
	}
}

func TestAnswersAreOfSeveralGoroutines(t *testing.T) {
	known := new(answers).next()
	for n := range 100 {
		known.Put(fmt.Sprint("known ", n), []byte{byte(n)})
	}
	a := known.next()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for n := range 1000 {
				a.Put(fmt.Sprint(g, n), nil)
				if _, has := a.Get(fmt.Sprint("known ", n%100)); !has {
					t.Error("an answer is lost")
				}
			}
		})
	}
	all.Wait()
}

func TestWhoseIgnoredFilesAreKnown(t *testing.T) {
	for _, c := range []struct {
		sentence string
		change   func(t *testing.T, top string)
		opened   string
		want     string
	}{
		{"the top", nil, "", ". true"},
		{"before the first git add", func(t *testing.T, top string) { drop(t, filepath.Join(top, ".git/index")) }, "", ". true"},
		{"no repository", func(t *testing.T, top string) { drop(t, filepath.Join(top, ".git")) }, "", " true"},
		{"a folder below .git", nil, "clusters", " false"},
		{"a linked work tree, or a submodule", func(t *testing.T, top string) {
			drop(t, filepath.Join(top, ".git"))
			put(t, filepath.Join(top, ".git"), "gitdir: elsewhere\n")
		}, "", ". false"},
		{"a split index", func(t *testing.T, top string) { put(t, filepath.Join(top, ".git/sharedindex.a"), "") }, "", ". false"},
		{"another common directory", func(t *testing.T, top string) { put(t, filepath.Join(top, ".git/commondir"), "") }, "", ". false"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			top := t.TempDir()
			for _, name := range []string{"HEAD", "config", "index", "info/exclude", "objects/a", "refs/a"} {
				put(t, filepath.Join(top, ".git", name), "")
			}
			put(t, filepath.Join(top, "clusters/prod/pools/a/a.bu"), "")
			if c.change != nil {
				c.change(t, top)
			}
			root, err := os.OpenRoot(filepath.Join(top, c.opened))
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			folder, err := filepath.Rel(c.opened, "clusters/prod")
			if err != nil {
				folder = "clusters/prod"
			}
			at, known := gitAround(root, filepath.Join(top, c.opened), folder)
			if fmt.Sprintf("%s %v", at, known) != c.want {
				t.Errorf("it is %s %v, want %s", at, known, c.want)
			}
		})
	}
}
