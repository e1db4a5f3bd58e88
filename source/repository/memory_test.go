package repository_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/bunsen-os/bunsen/source/repository"
)

// zeros is an endless answer.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = '0'
	}
	return len(into), nil
}

// TestServersThatFillTheMemory: eight servers answer with 300 MiB of zeros, compressed to 300 KB or as they are, or
// with an endless list of refs. Together they hold no more than the budget, and an honest source reads beside them.
func TestServersThatFillTheMemory(t *testing.T) {
	var bomb bytes.Buffer
	zipped := gzip.NewWriter(&bomb)
	if _, err := io.CopyN(zipped, zeros{}, 300<<20); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	packet := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
	kind := func(w http.ResponseWriter, r *http.Request) {
		part := "advertisement"
		if r.Method == http.MethodPost {
			part = "result"
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-"+part)
	}
	var sent atomic.Int64
	endless := func(w io.Writer, text string) {
		for {
			n, err := io.WriteString(w, text)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}
	ref := strings.Repeat(packet(strings.Repeat("a", 40)+" refs/heads/a\n"), 1000)
	for name, serve := range map[string]http.HandlerFunc{
		"compressed zeros": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		},
		"zeros": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, 300<<20) },
		"compressed refs": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write(bomb.Bytes())
				return
			}
			_, _ = io.WriteString(w, packet("version 2\n")+"0000")
		},
		"endless capabilities": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, packet("version 2\n"))
			endless(w, packet("agent=x\n"))
		},
		"endless refs": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				endless(w, ref)
				return
			}
			_, _ = io.WriteString(w, packet("version 2\n")+"0000")
		},
		"endless refs of version 0": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, packet("# service=git-upload-pack\n")+"0000"+
				packet(strings.Repeat("a", 40)+" refs/heads/a\x00agent=x\n"))
			endless(w, ref)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sent.Store(0)
			const budget = 128 << 20 // two long lists
			c := &repository.Opener{Memory: memory.New(budget)}
			list := func(url string) error {
				remote, err := c.OpenGit(git.Config{URL: url + "/cfg"})
				if err == nil {
					_, err = remote.List(t.Context(), source.Poll{})
				}
				return err
			}
			var all sync.WaitGroup
			hosts := 8
			if strings.HasPrefix(name, "endless") {
				hosts = 4 // twice as many lists as the budget has room for
			}
			for range hosts {
				url := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					kind(w, r)
					serve(w, r)
				}))
				all.Go(func() {
					err := list(url)
					if name == "zeros" && err == nil {
						return // 0000 ends a message, so this is an empty repository
					}
					if err == nil || strings.Contains(err.Error(), "000") {
						t.Errorf("a hostile server: %v", err)
					} else if strings.HasPrefix(name, "endless") && !strings.Contains(err.Error(), "sends more than") {
						t.Errorf("no limit ended the answer: %v", err)
					}
				})
			}
			all.Wait()
			if most := c.Memory.Most(); most > budget {
				t.Errorf("the sources held %d bytes", most)
			}
			// What is read beyond the limit is in buffers of the kernel.
			if total := sent.Load(); total > 8*(16+16)<<20 {
				t.Errorf("the servers sent %d bytes", total)
			}
			release, err := c.Memory.Hold(t.Context(), budget) // everything was given back
			if err != nil {
				t.Fatal(err)
			}
			release()
		})
	}
}
