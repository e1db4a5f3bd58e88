package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"
	"golang.org/x/tools/txtar"
)

var updateStories = flag.Bool("update-editor", false, "write what the server answers into testdata/editor")

var ciphertext = regexp.MustCompile(`ENC\[[^\]]*\]`)

// editor is an editor that runs bunsen lsp, as a process of its own.
type editor struct {
	t     *testing.T
	dir   string
	conn  *jsonrpc2.Conn
	texts map[string]string
	// versions count the changes of each text.
	versions map[string]int
	shown    chan problems
	notice   chan string
	// applied are edits that the server asked for.
	applied chan changes
	stderr  *bytes.Buffer
}

type problems struct {
	URI         string
	Version     int
	Diagnostics []problem
}

type problem struct {
	Range    area
	Severity int
	Code     string
	Message  string
}

type spot struct{ Line, Character int }

type area struct{ Start, End spot }

func (a area) String() string {
	if a.Start.Line == a.End.Line {
		return fmt.Sprintf("%d:%d-%d", a.Start.Line+1, a.Start.Character+1, a.End.Character+1)
	}
	return fmt.Sprintf("%d:%d-%d:%d", a.Start.Line+1, a.Start.Character+1, a.End.Line+1, a.End.Character+1)
}

// changes are edits of versions of texts.
type changes struct {
	DocumentChanges []struct {
		TextDocument struct {
			URI     string
			Version int
		}
		Edits []edit
	}
}

type edit struct {
	Range   area
	NewText string
}

type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p pipes) Close() error { return p.in.Close() }

// silent drops what the library logs when the server ends.
type silent struct{}

func (silent) Printf(string, ...any) {}

// startEditor runs this test's program as bunsen.
func startEditor(t *testing.T, dir, root string, env ...string) *editor {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "bunsen")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	e := &editor{
		t: t, dir: dir, texts: map[string]string{}, versions: map[string]int{}, stderr: new(bytes.Buffer),
		shown: make(chan problems, 1000), notice: make(chan string, 100),
		applied: make(chan changes, 10),
	}
	cmd := exec.CommandContext(context.Background(), program, "lsp")
	cmd.Stderr, cmd.Env = e.stderr, append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.conn = jsonrpc2.NewConn(context.Background(), jsonrpc2.NewBufferedStream(pipes{out, in},
		jsonrpc2.VSCodeObjectCodec{}), e, jsonrpc2.SetLogger(silent{}))
	t.Cleanup(func() {
		if err := e.conn.Call(context.Background(), "shutdown", nil, nil); err != nil {
			t.Errorf("shutdown: %v\n%s", err, e.stderr)
		}
		_ = e.conn.Notify(context.Background(), "exit", nil)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v\n%s", err, e.stderr)
		}
	})
	var answer map[string]any
	e.call("initialize", map[string]any{"rootUri": root, "capabilities": map[string]any{
		"workspace": map[string]any{"applyEdit": true, "workspaceEdit": map[string]any{"documentChanges": true}},
	}}, &answer)
	e.tell("initialized", map[string]any{})
	return e
}

// Handle takes what the server says by itself.
func (e *editor) Handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) {
	switch r.Method {
	case "workspace/applyEdit":
		var p struct{ Edit changes }
		err := json.Unmarshal(*r.Params, &p)
		if err == nil {
			e.applied <- p.Edit
		}
		_ = conn.Reply(ctx, r.ID, map[string]bool{"applied": err == nil})
	case "textDocument/publishDiagnostics":
		var p problems
		if err := json.Unmarshal(*r.Params, &p); err == nil {
			e.shown <- p
		}
	case "window/showMessage":
		var m struct{ Message string }
		if err := json.Unmarshal(*r.Params, &m); err == nil {
			e.notice <- m.Message
		}
	}
}

func (e *editor) call(method string, params, into any) {
	e.t.Helper()
	ctx, stop := context.WithTimeout(e.t.Context(), 20*time.Second)
	defer stop()
	if err := e.conn.Call(ctx, method, params, into); err != nil {
		e.t.Fatalf("%s: %v\n%s", method, err, e.stderr)
	}
}

func (e *editor) tell(method string, params any) {
	e.t.Helper()
	if err := e.conn.Notify(e.t.Context(), method, params); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

func (e *editor) uri(file string) string {
	if strings.HasPrefix(file, "file:") {
		return file
	}
	return (&url.URL{Scheme: "file", Path: filepath.Join(e.dir, file)}).String()
}

func (e *editor) open(file, text string) {
	e.texts[file], e.versions[file] = text, 1
	e.tell("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": e.uri(file), "languageId": "yaml", "version": 1, "text": text,
	}})
}

func (e *editor) replace(file string, at area, with string) {
	text := e.texts[file]
	e.texts[file] = text[:offsetOf(text, at.Start)] + with + text[offsetOf(text, at.End):]
	e.versions[file]++
	e.tell("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": e.uri(file), "version": e.versions[file]},
		"contentChanges": []map[string]any{{"range": at, "text": with}},
	})
}

// find returns where a text begins and ends; the stories have only ASCII before it in its line.
func (e *editor) find(file, text string) area {
	e.t.Helper()
	i := strings.Index(e.texts[file], text)
	if i < 0 {
		e.t.Fatalf("%s has no %q:\n%s", file, text, e.texts[file])
	}
	return area{spotOf(e.texts[file], i), spotOf(e.texts[file], i+len(text))}
}

func spotOf(text string, offset int) spot {
	before := text[:offset]
	return spot{strings.Count(before, "\n"), offset - strings.LastIndexByte(before, '\n') - 1}
}

func offsetOf(text string, s spot) int {
	lines := strings.SplitAfter(text, "\n")
	at := 0
	for _, l := range lines[:min(s.Line, len(lines))] {
		at += len(l)
	}
	return min(at+s.Character, len(text))
}

// problems waits for the next report of the present text of a file.
func (e *editor) problems(file string) []problem {
	e.t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case p := <-e.shown:
			if p.URI == e.uri(file) && p.Version == e.versions[file] {
				return p.Diagnostics
			}
		case <-late:
			e.t.Fatalf("the server says nothing about %s\n%s", file, e.stderr)
		}
	}
}

func (e *editor) at(file, text string) map[string]any {
	where := e.find(file, text).Start
	if name, after, ok := strings.Cut(text, "|"); ok { // The cursor is behind the stroke.
		_ = after
		where = e.find(file, name).End
	}
	return map[string]any{"textDocument": map[string]any{"uri": e.uri(file)}, "position": where}
}

type action struct {
	Title   string
	Edit    *changes
	Command *struct {
		Command   string
		Arguments []any
	}
}

func (e *editor) actions(file, text string) (out []action) {
	e.call("textDocument/codeAction", map[string]any{
		"textDocument": map[string]any{"uri": e.uri(file)}, "range": e.find(file, text),
		"context": map[string]any{"diagnostics": []any{}},
	}, &out)
	return out
}

// step runs one line of a story, and returns what an editor would show.
func (e *editor) step(words []string) string {
	e.t.Helper()
	var b strings.Builder
	verb, file := words[0], words[1]
	switch verb {
	case "open":
		text, err := os.ReadFile(filepath.Join(e.dir, file))
		if err != nil {
			e.t.Fatal(err)
		}
		e.open(file, string(text))
	case "new":
		e.open(file, words[2])
	case "save":
		if err := os.WriteFile(filepath.Join(e.dir, file), []byte(words[2]), 0o600); err != nil {
			e.t.Fatal(err)
		}
		e.tell("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{}})
	case "close":
		e.tell("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": e.uri(file)}})
	case "replace":
		e.replace(file, e.find(file, words[2]), words[3])
	case "problems":
		for _, p := range e.problems(file) {
			severity := map[int]string{1: "error", 2: "warning"}[p.Severity]
			fmt.Fprintf(&b, "%s: %s: %s [%s]\n", p.Range, severity, p.Message, p.Code)
		}
	case "hover":
		var h *struct{ Contents struct{ Value string } }
		e.call("textDocument/hover", e.at(file, words[2]), &h)
		if h != nil {
			b.WriteString(h.Contents.Value + "\n")
		}
	case "definition", "references":
		var all []struct {
			URI   string
			Range area
		}
		e.call("textDocument/"+verb, e.at(file, words[2]), &all)
		for _, l := range all {
			fmt.Fprintf(&b, "%s:%s\n", strings.TrimPrefix(l.URI, e.uri("")+"/"), l.Range)
		}
	case "complete":
		params := e.at(file, words[2])
		params["position"] = e.find(file, words[2]).End
		var all []struct {
			Label, Detail string
			TextEdit      edit
		}
		e.call("textDocument/completion", params, &all)
		for _, c := range all {
			fmt.Fprintf(&b, "%s | %s | %s %q\n", c.Label, c.Detail, c.TextEdit.Range, c.TextEdit.NewText)
		}
	case "actions":
		for _, a := range e.actions(file, words[2]) {
			b.WriteString(a.Title + "\n")
		}
	case "fix":
		for _, a := range e.actions(file, words[2]) {
			switch {
			case a.Title != words[3]:
			case a.Command != nil:
				e.call("workspace/executeCommand", a.Command, nil)
				select {
				case text := <-e.notice:
					b.WriteString(text + "\n")
				case c := <-e.applied:
					b.WriteString(e.apply(file, c))
				}
			default:
				b.WriteString(e.apply(file, *a.Edit))
			}
		}
	default:
		e.t.Fatalf("no such step: %q", words)
	}
	return b.String()
}

// apply makes the edits of a text, and returns the changed lines.
func (e *editor) apply(file string, all changes) string {
	e.t.Helper()
	var b strings.Builder
	for _, d := range all.DocumentChanges {
		if d.TextDocument.URI != e.uri(file) || d.TextDocument.Version != e.versions[file] {
			e.t.Fatalf("an edit of %+v, and the text is version %d of %s", d.TextDocument, e.versions[file], file)
		}
		for _, c := range d.Edits {
			e.replace(file, c.Range, c.NewText)
			text := strings.Split(e.texts[file], "\n")
			shown := strings.Join(text[c.Range.Start.Line:min(len(text), c.Range.Start.Line+2)], "\n")
			b.WriteString(ciphertext.ReplaceAllString(shown, "ENC[…]") + "\n")
		}
	}
	return b.String()
}

// TestStoriesOfAnEditor plays testdata/editor: a repository, and what a user does in an editor, line by line, each with
// what the server answers.
func TestStoriesOfAnEditor(t *testing.T) {
	files, err := filepath.Glob("testdata/editor/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "there is no story")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			story := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "story" })
			for _, f := range slices.Concat(a.Files[:story], a.Files[story+1:]) {
				name := filepath.Join(dir, f.Name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			e := startEditor(t, dir, (&url.URL{Scheme: "file", Path: dir}).String())
			var got strings.Builder
			for line := range strings.Lines(string(a.Files[story].Data)) {
				if strings.HasPrefix(line, "  ") {
					continue
				}
				got.WriteString(line)
				if words := wordsOf(t, line); len(words) > 0 {
					said := e.step(words)
					t.Logf("%q\n%s", words, said)
					for out := range strings.Lines(said) {
						if out = strings.TrimRight(out, " \n"); out != "" { // An empty line would be one of the story.
							got.WriteString("  " + out + "\n")
						}
					}
				}
			}
			if *updateStories {
				a.Files[story].Data = []byte(got.String())
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(a.Files[story].Data); got.String() != want {
				t.Errorf("got\n%s\nwant\n%s\n(-update-editor rewrites it)\n%s", got.String(), want, e.stderr)
			}
		})
	}
}

// TestAnEditorShowsWhatValidateReports opens the examples, and each with a mistake in every document: what the editor
// shows is what `bunsen validate` prints.
func TestAnEditorShowsWhatValidateReports(t *testing.T) {
	folders, err := filepath.Glob("../../examples/*/pools")
	if err != nil || len(folders) < 5 {
		t.Fatal(err, folders)
	}
	for _, pools := range folders {
		for _, mistake := range []string{"", "mode:"} {
			t.Run(filepath.Base(filepath.Dir(pools))+" without "+mistake, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "repo")
				if err := os.CopyFS(dir, os.DirFS(filepath.Dir(pools))); err != nil {
					t.Fatal(err)
				}
				documents, err := filepath.Glob(dir + "/*/*/*.bu")
				if err != nil || len(documents) == 0 {
					t.Fatal(err, "no documents")
				}
				for _, file := range documents {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					if mistake != "" {
						text = bytes.ReplaceAll(text, []byte(mistake), []byte("x"+mistake))
					}
					if err := os.WriteFile(file, text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				self, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				validate := exec.CommandContext(t.Context(), self, "validate", "-o", "json", dir)
				validate.Args[0] = "bunsen"
				printed, err := validate.Output()
				if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				var report struct {
					Findings []struct {
						File, Rule, Message string
						Line                int
					}
				}
				if err := json.Unmarshal(printed, &report); err != nil {
					t.Fatal(err, string(printed))
				}
				want := map[string]bool{}
				for _, f := range report.Findings {
					want[fmt.Sprintf("%s:%d: %s [%s]", f.File, max(1, f.Line), f.Message, f.Rule)] = true
				}
				e := startEditor(t, dir, (&url.URL{Scheme: "file", Path: dir}).String())
				first, err := filepath.Rel(dir, documents[0])
				if err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(documents[0])
				if err != nil {
					t.Fatal(err)
				}
				e.open(first, string(text))
				got := map[string]bool{}
				add := func(uri string, all []problem) {
					for _, p := range all {
						file := strings.TrimPrefix(uri, e.uri("")+"/")
						got[fmt.Sprintf("%s:%d: %s [%s]", file, p.Range.Start.Line+1, p.Message, p.Code)] = true
					}
				}
				for last := ""; last != e.uri(first); { // The report of the open file comes last.
					p := <-e.shown
					add(p.URI, p.Diagnostics)
					last = p.URI
				}
				for line := range want {
					if !got[line] {
						t.Errorf("the editor does not show %s", line)
					}
				}
				for line := range got {
					if !want[line] {
						t.Errorf("validate does not report %s", line)
					}
				}
				t.Logf("%d problems", len(want))
			})
		}
	}
}

// TestAFileThatGitIgnoresIsNoProblem has a repository in a folder of a work tree, as in a larger repository.
func TestAFileThatGitIgnoresIsNoProblem(t *testing.T) {
	top := t.TempDir()
	for name, text := range map[string]string{
		"clusters/prod/pools/worker/10-a.bu": valid, ".gitignore": "*.key\n",
		"clusters/prod/a.key": "AGE-SECRET-" + "KEY-1" + strings.Repeat("Q", 58) + "\n",
	} {
		write(t, filepath.Join(top, name), text)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", ".gitignore"}} {
		git := exec.CommandContext(t.Context(), "git", args...)
		git.Dir = top
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	e := startEditor(t, top, (&url.URL{Scheme: "file", Path: top}).String())
	const document = "clusters/prod/pools/worker/10-a.bu"
	e.open(document, valid)
	e.problems(document)
	e.tell("workspace/didChangeWatchedFiles", map[string]any{})
	e.replace(document, e.find(document, "/etc/a"), "/etc/b")
	for done := false; !done; {
		p := <-e.shown
		for _, found := range p.Diagnostics {
			if found.Code == "private-key" {
				t.Errorf("the editor shows %s", found.Message)
			}
		}
		done = p.URI == e.uri(document) && p.Version == 2
	}
	// Without the rule, it is one.
	write(t, filepath.Join(top, ".gitignore"), "\n")
	e.replace(document, e.find(document, "/etc/b"), "/etc/c")
	for p := range e.shown {
		if len(p.Diagnostics) > 0 && p.Diagnostics[0].Code == "private-key" {
			break
		}
		if p.URI == e.uri(document) && p.Version == 3 {
			t.Fatal("the editor does not show the key")
		}
	}
}

// TestBelowGitOnlySecretsInDocumentsAreMarked opens a folder of a work tree: what git ignores there is not known.
func TestBelowGitOnlySecretsInDocumentsAreMarked(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "clusters/prod")
	key := "AGE-SECRET-" + "KEY-1" + strings.Repeat("Q", 58) + "\n"
	for name, text := range map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "*.key\n", "clusters/prod/a.key": key,
		"clusters/prod/pools/worker/10-a.bu": valid,
	} {
		write(t, filepath.Join(top, name), text)
	}
	e := startEditor(t, dir, (&url.URL{Scheme: "file", Path: dir}).String())
	const document = "pools/worker/10-a.bu"
	e.open(document, valid+"# "+key)
	for {
		p := <-e.shown
		if p.URI != e.uri(document) {
			t.Errorf("%s has %v", p.URI, p.Diagnostics)
			continue
		}
		if len(p.Diagnostics) != 1 || p.Diagnostics[0].Code != "private-key" {
			t.Errorf("the document has %v", p.Diagnostics)
		}
		return
	}
}

// TestTheExitCodeOfAServer is that of the protocol: 1 for an exit without shutdown.
func TestTheExitCodeOfAServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const exit = `{"jsonrpc":"2.0","method":"exit"}`
	for said, want := range map[string]int{"": 0, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(exit), exit): 1} {
		cmd := exec.CommandContext(t.Context(), self, "lsp")
		cmd.Args[0], cmd.Stdin = "bunsen", strings.NewReader(said)
		out, err := cmd.CombinedOutput()
		if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("after %q it exits with %d, want %d\n%s", said, got, want, out)
		}
	}
}

// wordsOf splits a line of a story; a word in quotation marks is a text of Go.
func wordsOf(t *testing.T, line string) (out []string) {
	t.Helper()
	for line = strings.TrimSpace(line); line != "" && line[0] != '#'; line = strings.TrimSpace(line) {
		if quoted, err := strconv.QuotedPrefix(line); err == nil {
			word, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatal(err)
			}
			out, line = append(out, word), line[len(quoted):]
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		out, line = append(out, word), rest
	}
	return out
}
