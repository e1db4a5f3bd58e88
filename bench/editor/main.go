package main

import (
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
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `bunsen lsp, from a message of the editor to its answer; "mark" is from a keystroke that makes a document invalid
until the problem is shown: a misspelled key, or a colon that is missing. "first" is the same after the start of the
server. Times are elapsed times: the middle one, and the worst of the rounds.
`

// goal of answers and of marks
const goal = 100 * time.Millisecond

func run(ctx context.Context, args []string, out io.Writer) error {
	size, rounds, binary := 1000, 20, ""
	f := flag.NewFlagSet("editor", flag.ContinueOnError)
	f.IntVar(&size, "size", size, "how many documents the repositories have")
	f.IntVar(&rounds, "rounds", rounds, "how often each figure is measured")
	f.StringVar(&binary, "bunsen", "", "the program; built if empty")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, done, err := measure.Scratch()
	if err != nil {
		return err
	}
	defer done()
	if binary == "" {
		binary = filepath.Join(dir, "bunsen")
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/bunsen-os/bunsen/cmd/bunsen")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building bunsen: %w\n%s", err, text)
		}
	}
	fmt.Fprint(out, preface, measure.Machine())
	table := measure.Grid{Head: []string{"<documents in", "first", "mark", "hover", "definition", "references", "completion"}}
	missed := ""
	for _, shape := range []struct {
		name    string
		perPool int
	}{
		{"10 pools", max(1, size/10)}, {"1 pool", size},
	} {
		c := corpus.Repository{
			Documents: corpus.Small, Fragments: size, PerPool: shape.perPool, Pools: []string{"worker"},
		}
		at := filepath.Join(dir, strings.ReplaceAll(shape.name, " ", "-"))
		if err := c.WriteAll(at); err != nil {
			return err
		}
		row, late, err := session(ctx, binary, at, c.Place(size/2), rounds)
		if err != nil {
			return fmt.Errorf("measuring %d documents in %s: %w", size, shape.name, err)
		}
		table.Add(append([]string{fmt.Sprintf("%d in %s", size, shape.name)}, row...)...)
		if late != "" {
			missed += fmt.Sprintf("  %s: %s\n", shape.name, late)
		}
	}
	if err := table.Print(out); err != nil {
		return err
	}
	_, err = fmt.Fprint(out, measure.Whether(missed))
	return err
}

// client is an editor with one open document.
type client struct {
	conn    *jsonrpc2.Conn
	uri     string
	version int
	marks   chan mark
}

// mark is a report of problems of one version of the document.
type mark struct{ version, problems int }

// Handle takes the problems that the server shows.
func (c *client) Handle(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) {
	var p struct {
		URI         string
		Version     int
		Diagnostics []json.RawMessage
	}
	if r.Method == "textDocument/publishDiagnostics" && json.Unmarshal(*r.Params, &p) == nil && p.URI == c.uri {
		c.marks <- mark{p.Version, len(p.Diagnostics)}
	}
}

type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

// Write writes to the server.
func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the server's input.
func (p pipes) Close() error { return p.in.Close() }

// quiet drops what the library logs when the server ends.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(string, ...any) {}

// session starts the server in a directory, opens a document and measures each answer some times.
func session(ctx context.Context, binary, dir, file string, rounds int) (row []string, late string, err error) {
	cmd := exec.CommandContext(ctx, binary, "lsp")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("starting %s: %w", binary, err)
	}
	c := &client{uri: uriOf(filepath.Join(dir, file)), marks: make(chan mark, 1000)}
	c.conn = jsonrpc2.NewConn(ctx, jsonrpc2.NewBufferedStream(pipes{answers, in}, jsonrpc2.VSCodeObjectCodec{}), c,
		jsonrpc2.SetLogger(quiet{}))
	defer func() {
		err = errors.Join(err, c.conn.Call(ctx, "shutdown", nil, nil), c.conn.Notify(ctx, "exit", nil), cmd.Wait())
	}()
	raw, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, "", err
	}
	valid := string(raw)
	mistakes := []string{strings.Replace(valid, "mode:", "mod:", 1), strings.Replace(valid, "mode:", "mode", 1)}
	if mistakes[0] == valid {
		return nil, "", errors.New("the document has no mode")
	}
	if err := c.conn.Call(ctx, "initialize", object{"rootUri": uriOf(dir)}, new(any)); err != nil {
		return nil, "", err
	}
	first, err := c.show(ctx, "textDocument/didOpen", valid)
	if err != nil {
		return nil, "", err
	}
	var marks []time.Duration
	for i := range rounds {
		took, err := c.show(ctx, "textDocument/didChange", mistakes[i%2]+strings.Repeat("#", i))
		if err != nil {
			return nil, "", err
		}
		marks = append(marks, took)
		if _, err := c.show(ctx, "textDocument/didChange", valid); err != nil {
			return nil, "", err
		}
	}
	row = []string{measure.Duration(first), span(marks)}
	if worst := measure.Percentile(marks, 100); worst > goal {
		late += fmt.Sprintf("a mark takes %s, more than %s; ", worst, goal)
	}
	at := object{"line": strings.Count(valid[:strings.Index(valid, "mode:")], "\n")}
	at["character"] = len("      m")
	for _, method := range []string{"hover", "definition", "references", "completion"} {
		var times []time.Duration
		for range rounds {
			// Behind a keystroke, as an editor asks.
			if _, err := c.show(ctx, "textDocument/didChange", valid+strings.Repeat("#", len(times)+1)); err != nil {
				return nil, "", err
			}
			from := time.Now()
			var answer any
			err := c.conn.Call(ctx, "textDocument/"+method, object{
				"textDocument": object{"uri": c.uri}, "position": at,
			}, &answer)
			times = append(times, time.Since(from))
			if err != nil || answer == nil {
				return nil, "", fmt.Errorf("%s has no answer: %w", method, err)
			}
		}
		row = append(row, span(times))
		if worst := measure.Percentile(times, 100); worst > goal {
			late += fmt.Sprintf("%s takes %s, more than %s; ", method, worst, goal)
		}
	}
	return row, strings.TrimSuffix(late, "; "), nil
}

type object = map[string]any

func uriOf(file string) string { return (&url.URL{Scheme: "file", Path: file}).String() }

// show sends a text, and returns the time until its problems are shown.
func (c *client) show(ctx context.Context, method, text string) (time.Duration, error) {
	c.version++
	document := object{"uri": c.uri, "version": c.version, "text": text}
	from := time.Now()
	if err := c.conn.Notify(ctx, method, object{
		"textDocument": document, "contentChanges": []object{{"text": text}},
	}); err != nil {
		return 0, err
	}
	for {
		select {
		case m := <-c.marks:
			if m.version == c.version {
				return time.Since(from), nil
			}
		case <-time.After(time.Minute):
			return 0, errors.New("the server shows no problems for a minute")
		}
	}
}

// span writes the middle and the worst time.
func span(times []time.Duration) string {
	return measure.Duration(measure.Percentile(times, 50)) + " – " + measure.Duration(measure.Percentile(times, 100))
}
