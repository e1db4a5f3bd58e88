package forecast_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	linuxfiles "github.com/bunsen-os/bunsen/mcd/linux/files"
)

// storedFile is a file of a config: which contents it has, whether they are in the content store, and whether a text
// follows them.
type storedFile struct {
	contents        int
	stored, hasMore bool
}

func contentsOf(n int) []byte { return bytes.Repeat([]byte{byte('a' + n)}, 100+n) }

func hashOf(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + hex.EncodeToString(sum[:])
}

// storedConfig returns a config with files, in their order.
func storedConfig(all map[string]storedFile) machineconfig.Config {
	c := machineconfig.Config{HasIgnition: true}
	for _, path := range []string{"/opt/a", "/opt/b", "/opt/c"} {
		f, has := all[path]
		if !has {
			continue
		}
		inline := "data:;base64," + base64.StdEncoding.EncodeToString(contentsOf(f.contents))
		file := ign.File{
			Node:          ign.Node{Path: path},
			FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &inline}},
		}
		if f.stored {
			file.Contents = machineconfig.ContentResource(hashOf(contentsOf(f.contents)))
		} else if f.hasMore {
			more := "data:,more"
			file.Append = []ign.Resource{{Source: &more}}
		}
		c.Ignition.Storage.Files = append(c.Ignition.Storage.Files, file)
	}
	return c
}

// recorder serves the content store, and records what a machine downloads.
type recorder struct {
	sources []string
	bytes   []int64
}

func (r *recorder) Get(_ context.Context, address string, _ map[string]string) (fetch.Answer, io.ReadCloser, error) {
	for n := range 3 {
		if data := contentsOf(n); machineconfig.StoredSource(hashOf(data)) == address {
			r.sources, r.bytes = append(r.sources, machineconfig.ShownAddress(address)),
				append(r.bytes, int64(len(data)))
			return fetch.Answer{Status: 200, Length: int64(len(data))}, io.NopCloser(bytes.NewReader(data)), nil
		}
	}
	return fetch.Answer{}, nil, fmt.Errorf("%s is not in the content store", address)
}

// TestTheReviewListsExactlyWhatAMachineDownloads: for random pairs of configs, a machine that runs the first downloads
// for the second what the review lists, with the sizes that it says.
func TestTheReviewListsExactlyWhatAMachineDownloads(t *testing.T) {
	sizes := review.DownloadSizes{}
	for n := range 3 {
		sizes[hashOf(contentsOf(n))] = int64(len(contentsOf(n)))
	}
	fetched, nothing := 0, 0
	for i := range uint64(200) {
		r := rand.New(rand.NewPCG(*seed, i))
		random := func() map[string]storedFile {
			all := map[string]storedFile{}
			for _, path := range []string{"/opt/a", "/opt/b", "/opt/c"} {
				if r.IntN(4) > 0 {
					all[path] = storedFile{r.IntN(3), r.IntN(2) == 0, r.IntN(4) == 0}
				}
			}
			return all
		}
		from, to := random(), random()
		side := func(name string, files map[string]storedFile) review.Side {
			return review.Side{Policy: disruption.Default(), Pools: map[string]review.Pool{"worker": {
				Rendered: name, Config: storedConfig(files),
				Sizes: sizes,
			}}}
		}
		var said recorder
		for _, f := range review.Compare(side("a", from), side("b", to)).Pools[0].Fetches {
			said.sources, said.bytes = append(said.sources, f.Source), append(said.bytes, f.Bytes)
		}
		done := download(t, from, to)
		if diff := cmp.Diff(said, done, cmp.AllowUnexported(recorder{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%+v → %+v: -said +done:\n%s", from, to, diff)
		}
		if fetched += len(done.sources); len(done.sources) == 0 {
			nothing++
		}
	}
	if fetched < 50 || nothing < 10 {
		t.Errorf("the test has lost its subject: %d downloads, %d changes without one", fetched, nothing)
	}
}

// download returns what a machine with the files of the first config downloads for the second.
func download(t *testing.T, from, to map[string]storedFile) recorder {
	t.Helper()
	dir := t.TempDir()
	root, err := linuxfiles.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var done recorder
	store := root.ContentStore()
	f := fetch.Fetcher{Files: root, Store: store, Partials: store, Web: func(fetch.Access) fetch.Web { return &done }}
	for path, file := range from {
		text := contentsOf(file.contents)
		if file.hasMore && !file.stored {
			text = append(text, "more"...)
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []machineconfig.Config{storedConfig(from), storedConfig(to)} {
		done = recorder{}
		if _, err := f.Fetch(t.Context(), c, func(fetch.Progress) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return done
}
