package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/corpus"
)

func TestTheTablesArePrinted(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-files", "1,4", "-documents", "1,4", "-time", "1ns"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"One Butane document:", "Many Butane documents:", "An overlay:", cold, changed,
		unchanged, "butane 92 ms",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	if err := run([]string{"-documents", "4,1"}, &out); err == nil {
		t.Error("sizes that shrink were taken")
	}
}

// A peer that fails must not pass for a fast one.
func TestPeersDoTheWork(t *testing.T) {
	if err := butane([]byte("variant: fcos\nversion: 1.6.0\nstorage: {files: [{}]}\n")); err == nil {
		t.Error("Butane took a file without a path")
	}
	memory, err := resources(corpus.Small, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := memory.RemoveAll("/base/doc-0001.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := kustomize(memory); err == nil {
		t.Error("kustomize built a base of which a document is missing")
	}
}
