package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// script is a program that prints a version, or ends with an error.
func script(version string) string { return "#!/bin/sh\n# " + version + "\necho " + version + "\n" }

func TestTheProgramIsReplacedByTheOneThatTheConfigNames(t *testing.T) {
	zipped := &bytes.Buffer{}
	w := gzip.NewWriter(zipped)
	if _, err := w.Write([]byte(script("v3"))); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	served := map[string]string{
		"/v2": script("v2"), "/v3.gz": zipped.String(),
		"/broken": "#!/bin/sh\necho no such CPU >&2; exit 1\n",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if served[r.URL.Path] == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(served[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	for because, c := range map[string]struct {
		// url and sum are those of the config; arch is where they stand.
		url, sum, arch string
		// want is the program that is there afterwards, says is a part of the output or the error.
		want, says string
		fails      bool
	}{
		"another one":               {"/v2", hashOf([]byte(script("v2"))), runtime.GOARCH, script("v2"), "is now version v2, from ", false},
		"a compressed one":          {"/v3.gz", hashOf([]byte(script("v3"))), runtime.GOARCH, script("v3"), "version v3", false},
		"an upper-case hash":        {"/v2", strings.ToUpper(hashOf([]byte(script("v2")))), runtime.GOARCH, script("v2"), "version v2", false},
		"the one that is there":     {"/nowhere", hashOf([]byte(script("v1"))), runtime.GOARCH, script("v1"), "is the binary that", false},
		"one with another hash":     {"/v2", hashOf([]byte("x")), runtime.GOARCH, script("v1"), "correct the URL or the hash in the config", true},
		"one that does not run":     {"/broken", hashOf([]byte(served["/broken"])), runtime.GOARCH, script("v1"), "no such CPU", true},
		"one that is not there":     {"/nowhere", hashOf([]byte("x")), runtime.GOARCH, script("v1"), "404", true},
		"one for other machines":    {"/v2", hashOf([]byte("x")), "vax", script("v1"), "names no binary for " + runtime.GOARCH, true},
		"one without a hash":        {"/v2", "", runtime.GOARCH, script("v1"), "128 hexadecimal digits", true},
		"one on an unsupported URL": {"file:///etc/passwd", hashOf([]byte("x")), runtime.GOARCH, script("v1"), "want https://", true},
	} {
		t.Run(because, func(t *testing.T) {
			dir := t.TempDir()
			program, config := filepath.Join(dir, programName), filepath.Join(dir, "binary.json")
			url := c.url
			if strings.HasPrefix(url, "/") {
				url = server.URL + url
			}
			text, err := json.Marshal(map[string]namedBinary{c.arch: {url, c.sum}})
			if err == nil {
				err = errors.Join(os.WriteFile(program, []byte(script("v1")), 0o700), os.WriteFile(config, text, 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := newRoot()
			cmd.SetOut(&out)
			cmd.SetArgs([]string{"update", "--from", config, "--to", program})
			err = cmd.ExecuteContext(t.Context())
			said := out.String()
			if err != nil {
				said = err.Error()
			}
			is, errRead := os.ReadFile(program)
			left, errDir := os.ReadDir(dir)
			if err := errors.Join(errRead, errDir); err != nil {
				t.Fatal(err)
			}
			if (err != nil) != c.fails || !strings.Contains(said, c.says) || string(is) != c.want || len(left) != 2 {
				t.Errorf("it says %q, the program is %q, the directory has %v; want %q", said, is, left, c.says)
			}
		})
	}
}

func TestTheImageCopiesItsProgram(t *testing.T) {
	dir := t.TempDir()
	cmd := newRoot()
	cmd.SetArgs([]string{"copy", dir})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err1 := os.ReadFile(self)
	got, err2 := os.ReadFile(filepath.Join(dir, programName))
	info, err3 := os.Stat(filepath.Join(dir, programName))
	if err := errors.Join(err1, err2, err3); err != nil || !bytes.Equal(got, want) || info.Mode() != 0o755 {
		t.Errorf("%v, %d of %d bytes", err, len(got), len(want))
	}
}

// TestTheServiceNoticesAReplacedUnit: the program of this test stays, so a drop-in stands for both.
func TestTheServiceNoticesAReplacedUnit(t *testing.T) {
	unit := filepath.Join(t.TempDir(), "machine-config-daemon.service")
	before := fingerprint([]string{unit, filepath.Join(filepath.Dir(unit), "*.d/*")})
	if before != "" {
		t.Errorf("nothing is there, and it is %q", before)
	}
	for _, text := range []string{"[Service]\n", "[Service]\nNice=1\n"} {
		if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		after := fingerprint([]string{unit})
		if after == before {
			t.Errorf("it does not notice %q", text)
		}
		before = after
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	awaitReplaced(ctx, time.Hour, slog.New(slog.DiscardHandler), func() { t.Error("nothing was replaced") })
}
