package main

import (
	"encoding/pem"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the files that scripts compare with")

// TestMain lets a script run machine-config-daemon as a command of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"machine-config-daemon": main})
}

// TestScripts runs testdata/*.txtar: what people type, what they read, and the exit code. Beside testscript's commands
// there are `exits CODE command…` and `serve DIR`, which serves a directory over HTTP ($URL) and HTTPS ($TLS, signed by
// ca.pem).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "serve": serve},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				_, err := exec.LookPath("useradd")
				return os.Geteuid() == 0 && err == nil, nil
			}
			return false, errors.New("no such condition")
		},
	})
}

// exits runs a command and fails unless it ends with this very code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("running %v: %v", args[1:], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// whole answers with the beginning of a config that reads as a whole one.
func whole(w http.ResponseWriter, _ *http.Request, head string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+head+
		"\r\n\r\nignition:\n  version: 3.5.0\n") //nolint:errcheck // a client that goes away
}

func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve DIR")
	}
	files := http.FileServer(http.Dir(ts.MkAbs(args[0])))
	plain := httptest.NewServer(files)
	ts.Defer(plain.Close)
	mux := http.NewServeMux()
	mux.Handle("/", files)
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for block := []byte(strings.Repeat("#", 1<<20)); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) { whole(w, r, "Connection: close") })
	mux.HandleFunc("/short", func(w http.ResponseWriter, r *http.Request) { whole(w, r, "Content-Length: 999") })
	mux.HandleFunc("/key", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/keyless", http.StatusFound)
	})
	mux.HandleFunc("/keyless", func(w http.ResponseWriter, r *http.Request) {
		if r.Referer() != "" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+"/motd.ign", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/round", http.StatusFound)
	})
	secure := httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	ts.Defer(secure.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), ca, 0o600))
	ts.Setenv("URL", plain.URL)
	ts.Setenv("TLS", secure.URL)
}
