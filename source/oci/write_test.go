package oci_test

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/bunsen-os/bunsen/source/oci"
)

func TestTheSameFilesGiveTheSameArchive(t *testing.T) {
	long := strings.Repeat("a-longer-folder/", 12) + "ümlaut file.bu"
	files := func(at time.Time) fstest.MapFS {
		return fstest.MapFS{
			"pools/worker/a.bu": {Data: []byte("a"), Mode: 0o644, ModTime: at},
			"run.sh":            {Data: []byte("#!/bin/sh\n"), Mode: 0o700, ModTime: at},
			"empty":             {Mode: 0o600, ModTime: at},
			long:                {Data: []byte("long"), Mode: 0o644, ModTime: at},
		}
	}
	var first, second bytes.Buffer
	n, err := oci.WriteArchive(&first, files(time.Unix(1, 0)))
	if err != nil || n != 4 {
		t.Fatalf("wrote %d files, %v", n, err)
	}
	if _, err := oci.WriteArchive(&second, files(time.Unix(2_000_000_000, 5))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the times of files change the archive")
	}
	got := stored{}
	inventory, err := oci.ArchiveReader{Into: got}.Read(t.Context(), &first)
	if err != nil || len(inventory.Refused()) > 0 {
		t.Fatalf("reading it: %v, refused %v", err, inventory.Refused())
	}
	for name, f := range files(time.Time{}) {
		want := content{f.Mode&0o100 != 0, string(f.Data)}
		if got[name] != want {
			t.Errorf("%s is %+v, want %+v", name, got[name], want)
		}
	}
}

func TestOnlyRegularFilesAreWritten(t *testing.T) {
	_, err := oci.WriteArchive(&bytes.Buffer{}, fstest.MapFS{"a": {Data: []byte("b"), Mode: fs.ModeSymlink}})
	if err == nil || !strings.Contains(err.Error(), "a is not a regular file") {
		t.Errorf("got %v", err)
	}
}

// content is a file that was read from an archive.
type content struct {
	executable bool
	text       string
}

// stored keeps files in memory.
type stored map[string]content

// Write stores a file.
func (s stored) Write(p string, executable bool, raw []byte) error {
	s[p] = content{executable, string(raw)}
	return nil
}
