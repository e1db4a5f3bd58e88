package lsp

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/bunsen-os/bunsen/source"
)

// failing is a copy of a folder that panics until it is asked for the second time.
type failing struct {
	mu    sync.Mutex
	asked int
}

// Tree panics at first, as a mistake in the renderer would.
func (f *failing) Tree(context.Context, map[string]string) (source.Tree, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked++; f.asked == 1 {
		panic("a mistake")
	}
	return source.Tree{}, os.ErrNotExist
}

// Close does nothing.
func (*failing) Close() error { return nil }

type shown chan []diagnostic

// Handle takes the diagnostics.
func (s shown) Handle(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) {
	var p struct{ Diagnostics []diagnostic }
	if r.Method == "textDocument/publishDiagnostics" && json.Unmarshal(*r.Params, &p) == nil {
		s <- p.Diagnostics
	}
}

func TestAPanicEndsOneRunAndNotTheServer(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pools"), 0o755); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	var log bytes.Buffer
	ended := make(chan error)
	go func() {
		ended <- Serve(t.Context(), theirs, Options{
			Log: &log, Open: func(folder *os.Root) (Copy, error) { return new(failing), folder.Close() },
		})
	}()
	all := make(shown, 10)
	conn := jsonrpc2.NewConn(t.Context(), jsonrpc2.NewBufferedStream(ours, jsonrpc2.VSCodeObjectCodec{}), all)
	uri := (&url.URL{Scheme: "file", Path: dir}).String()
	var answer any
	if err := conn.Call(t.Context(), "initialize", object{"rootUri": uri}, &answer); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a mistake of its own", "file does not exist"} {
		if err := conn.Notify(t.Context(), "textDocument/didOpen", object{"textDocument": object{
			"uri": uri + "/pools/a/a.bu", "text": "variant: fcos\n",
		}}); err != nil {
			t.Fatal(err)
		}
		if got := <-all; len(got) != 1 || !strings.Contains(got[0].Message, want) {
			t.Errorf("the editor shows %v, want %q", got, want)
		}
	}
	// The answers that need no rendering go on.
	if err := conn.Call(t.Context(), "textDocument/hover", object{
		"textDocument": object{"uri": uri + "/pools/a/a.bu"}, "position": position{0, 1},
	}, &answer); err != nil || answer == nil {
		t.Error(err, answer)
	}
	for _, bad := range []struct {
		method string
		params any
	}{{"textDocument/hover", "x"}, {"workspace/executeCommand", object{"command": "sh"}}, {"no/such", object{}}} {
		if err := conn.Call(t.Context(), bad.method, bad.params, &answer); err == nil {
			t.Errorf("%s %v is no error", bad.method, bad.params)
		}
	}
	if err := conn.Call(t.Context(), "shutdown", nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Notify(t.Context(), "exit", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
