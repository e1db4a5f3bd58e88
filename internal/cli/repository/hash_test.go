package repository_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

// newServer serves /a, and /a.gz compressed.
func newServer(t *testing.T) (url, ca string, requests *int) {
	t.Helper()
	requests = new(int)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		switch r.URL.Path {
		case "/a":
			fmt.Fprint(w, "contents")
		case "/a.gz":
			zip := gzip.NewWriter(w)
			zip.Write([]byte("contents"))
			zip.Close()
		default:
			http.NotFound(w, r)
		}
	}))
	server.StartTLS()
	t.Cleanup(server.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, ca, requests
}

func butane(t *testing.T, contents ...string) string {
	t.Helper()
	text := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n"
	for _, c := range contents {
		text += "    - path: /a # kept\n      contents: {" + c + "}\n"
	}
	path := filepath.Join(t.TempDir(), "a.bu")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHashesAreWrittenIntoTheDocument(t *testing.T) {
	url, ca, requests := newServer(t)
	long, short := fmt.Sprintf("sha512-%x", sha512.Sum512([]byte("contents"))),
		fmt.Sprintf("sha256-%x", sha256.Sum256([]byte("contents")))
	path := butane(t, "source: '"+url+"/a?token=geheim'", "source: "+url+"/a.gz, compression: gzip", "source: "+url+
		"/a, verification: {hash: sha256-old}", "source: '"+url+"/a?token=geheim'")
	results, err := repository.HashOptions{CAFile: ca}.Run(t.Context(), []string{path})
	if err != nil || len(results) != 4 || *requests != 3 {
		t.Fatal(results, err, *requests)
	}
	for i, want := range []string{long, long, short, long} {
		if r := results[i]; r.Hash != want || !r.Changed || r.Bytes != 8 || strings.Contains(r.Address, "geheim") ||
			r.Line != 6+2*i {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	text, _ := os.ReadFile(path)
	want := butane(t, "source: '"+url+"/a?token=geheim', verification: {hash: "+long+"}", "source: "+url+
		"/a.gz, verification: {hash: "+long+"}, compression: gzip", "source: "+url+"/a, verification: {hash: "+short+
		"}", "source: '"+url+"/a?token=geheim', verification: {hash: "+long+"}")
	if shall, _ := os.ReadFile(want); !bytes.Equal(text, shall) {
		t.Errorf("it wrote\n%s\nwant\n%s", text, shall)
	}
	if is, err := os.Stat(path); err != nil || is.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v, %v", is.Mode(), err)
	}
	results, err = repository.HashOptions{CAFile: ca, Missing: true}.Run(t.Context(), []string{path})
	if err != nil || len(results) != 0 {
		t.Errorf("with nothing missing it says %v, %v", results, err)
	}
}

func TestACheckWritesNothing(t *testing.T) {
	url, ca, _ := newServer(t)
	path := butane(t, "source: "+url+"/a")
	before, _ := os.ReadFile(path)
	results, err := repository.HashOptions{CAFile: ca, Check: true}.Run(t.Context(), []string{path})
	after, _ := os.ReadFile(path)
	if err != nil || len(results) != 1 || !results[0].Changed || !bytes.Equal(before, after) {
		t.Errorf("%+v, %v\n%s", results, err, after)
	}
}

func TestAnAddressThatFailsLeavesItsDocument(t *testing.T) {
	url, ca, _ := newServer(t)
	for says, c := range map[string]struct {
		contents, want string
		code           int
	}{
		"nothing there":     {"source: '" + url + "/b?token=geheim'", "the server answers 404", 3},
		"an unknown server": {"source: 'https://127.0.0.1:1/b?token=geheim'", "connection refused", 3},
		"a password":        {"source: https://u:geheim@127.0.0.1:1/b", "contains a user name or a password", 2},
		"no gzip":           {"source: '" + url + "/a?token=geheim', compression: gzip", "unpacking " + url + "/a?…: ", 2},
	} {
		t.Run(says, func(t *testing.T) {
			path := butane(t, "source: "+url+"/a", c.contents)
			before, _ := os.ReadFile(path)
			_, err := repository.HashOptions{CAFile: ca}.Run(t.Context(), []string{path})
			after, _ := os.ReadFile(path)
			var exit *cli.ExitError
			if !errors.As(err, &exit) || exit.Code != c.code || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), path+":8: ") || strings.Contains(err.Error(), "geheim") {
				t.Errorf("it says %v", err)
			}
			if !bytes.Equal(before, after) {
				t.Errorf("it wrote\n%s", after)
			}
		})
	}
}
