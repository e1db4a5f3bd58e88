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
	"github.com/bunsen-os/bunsen/bench/peers"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `bunsen lsp, from a message of the editor to its answer; "mark" is from a keystroke that makes a document invalid
until the problem is shown: a misspelled key, or a colon that is missing. "first" is the same after the start of the
server. Times are elapsed times. They stand beside what the editor waits for at least: an answer of the server for which it looks
at nothing, and for a mark the translation of the document by the Butane library.
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
	var figures []measure.Figure
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
		taken, err := session(ctx, binary, at, c.Place(size/2), rounds)
		if err != nil {
			return fmt.Errorf("measuring %d documents in %s: %w", size, shape.name, err)
		}
		figures = append(figures, figuresOf(taken, shape.name, size)...)
	}
	return measure.Finish(out, figures)
}

// times are the durations of each kind of answer. They belong to the floor in beside.
type times struct {
	what   string
	took   []time.Duration
	beside measure.Peer
}

// figuresOf returns the figures of a session.
func figuresOf(all []times, shape string, size int) (figures []measure.Figure) {
	for _, t := range all {
		name := func(which string) string { return shape + ": " + t.what + ", " + which }
		var beside []measure.Peer
		if t.beside.Name != "" {
			beside = []measure.Peer{t.beside}
		}
		worst := measure.Figure{
			What: name("the slowest"), Size: size, Of: "documents", Now: measure.Time(measure.Percentile(t.took, 100)),
			Peers: beside,
		}
		if t.what != first {
			worst.Goals = []measure.Bound{measure.AtMost(measure.Time(goal))}
		}
		if len(t.took) > 1 {
			figures = append(figures, measure.Figure{
				What: name("half"), Size: size, Of: "documents", Now: measure.Time(measure.Percentile(t.took, 50)),
				Peers: beside,
			})
		}
		figures = append(figures, worst)
	}
	return figures
}

// first is the answer after the start of the server.
const first = "first problems"

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
func session(ctx context.Context, binary, dir, file string, rounds int) (all []times, err error) {
	cmd := exec.CommandContext(ctx, binary, "lsp")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	c := &client{uri: uriOf(filepath.Join(dir, file)), marks: make(chan mark, 1000)}
	c.conn = jsonrpc2.NewConn(ctx, jsonrpc2.NewBufferedStream(pipes{answers, in}, jsonrpc2.VSCodeObjectCodec{}), c,
		jsonrpc2.SetLogger(quiet{}))
	defer func() {
		err = errors.Join(err, c.conn.Call(ctx, "shutdown", nil, nil), c.conn.Notify(ctx, "exit", nil), cmd.Wait())
	}()
	raw, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	valid := string(raw)
	mistakes := []string{strings.Replace(valid, "mode:", "mod:", 1), strings.Replace(valid, "mode:", "mode", 1)}
	if mistakes[0] == valid {
		return nil, errors.New("the document has no mode")
	}
	if err := c.conn.Call(ctx, "initialize", object{"rootUri": uriOf(dir)}, new(any)); err != nil {
		return nil, err
	}
	took, err := c.show(ctx, "textDocument/didOpen", valid)
	if err != nil {
		return nil, err
	}
	all = append(all, times{what: first, took: []time.Duration{took}})
	butane, err := translate(valid, rounds)
	if err != nil {
		return nil, err
	}
	marks := times{what: "mark", beside: measure.Took("Butane", butane)}
	for i := range rounds {
		took, err := c.show(ctx, "textDocument/didChange", mistakes[i%2]+strings.Repeat("#", i))
		if err != nil {
			return nil, err
		}
		marks.took = append(marks.took, took)
		if _, err := c.show(ctx, "textDocument/didChange", valid); err != nil {
			return nil, err
		}
	}
	all = append(all, marks)
	nothing, err := c.roundTrip(ctx, rounds)
	if err != nil {
		return nil, err
	}
	at := object{"line": strings.Count(valid[:strings.Index(valid, "mode:")], "\n")}
	at["character"] = len("      m")
	for _, method := range []string{"hover", "definition", "references", "completion"} {
		answers := times{what: method, beside: measure.Took("an answer without work", nothing)}
		for i := range rounds {
			// Behind a keystroke, as an editor asks.
			if _, err := c.show(ctx, "textDocument/didChange", valid+strings.Repeat("#", i+1)); err != nil {
				return nil, err
			}
			from := time.Now()
			var answer any
			err := c.conn.Call(ctx, "textDocument/"+method, object{
				"textDocument": object{"uri": c.uri}, "position": at,
			}, &answer)
			answers.took = append(answers.took, time.Since(from))
			if err != nil || answer == nil {
				return nil, fmt.Errorf("%s has no answer: %w", method, err)
			}
		}
		all = append(all, answers)
	}
	return all, nil
}

// translate returns the median time in which the Butane library translates the document.
func translate(text string, rounds int) (time.Duration, error) {
	var took []time.Duration
	for range rounds {
		from := time.Now()
		if _, err := peers.Butane([]byte(text)); err != nil {
			return 0, err
		}
		took = append(took, time.Since(from))
	}
	return measure.Percentile(took, 50), nil
}

// roundTrip returns the median time until the server refuses a method that it does not have.
func (c *client) roundTrip(ctx context.Context, rounds int) (time.Duration, error) {
	var took []time.Duration
	for range rounds {
		from := time.Now()
		var refused *jsonrpc2.Error
		if err := c.conn.Call(ctx, "bench/nothing", object{}, new(any)); !errors.As(err, &refused) {
			return 0, fmt.Errorf("a method that is not there: %w", err)
		}
		took = append(took, time.Since(from))
	}
	return measure.Percentile(took, 50), nil
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
