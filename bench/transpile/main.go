package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `Transpiling: files are read, overlays built, Butane documents become MachineConfigs with the line of each value.
`

const explained = `
Butane is the library's TranslateBytes with default options, kustomize the library's build of the same documents and
patches as resources, after which Butane translates as many documents. Neither remembers anything, so that a change, or
none, costs it all again.
`

// bench measures in its own directory.
type bench struct {
	dir   string
	limit measure.Limit
}

func (b bench) folder(name string, n int) string {
	return filepath.Join(b.dir, fmt.Sprint(name, "-", n))
}

// section is a table, and the function that fills it for each size.
type section struct {
	table *measure.Table
	sizes measure.Sizes
	rows  func(t *measure.Table, n int) error
}

func run(args []string, out io.Writer) error {
	files, documents := measure.Sizes{1, 20, 200}, measure.Sizes{10, 100, 1000}
	b := bench{limit: measure.Limit{Runs: 5}}
	f := flag.NewFlagSet("transpile", flag.ContinueOnError)
	f.Var(&files, "files", "numbers of files in the one document, growing")
	f.Var(&documents, "documents", "numbers of documents, growing")
	f.DurationVar(&b.limit.Time, "time", 500*time.Millisecond, "repeat a row until it has taken the CPU for this "+
		"long; each runs at least once")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, done, err := measure.Scratch()
	if err != nil {
		return err
	}
	defer done()
	b.dir = dir
	if err := b.warmUp(); err != nil {
		return err
	}
	fmt.Fprint(out, preface, measure.Machine())
	var tables []*measure.Table
	for _, s := range []section{
		{&measure.Table{Title: "One Butane document", Explained: "files of 1–4 KiB inline", Of: "files"}, files, b.document},
		{&measure.Table{Title: "Many Butane documents", Explained: "in one plain directory, each 4 files of 1–4 KiB and a unit", Of: "documents"}, documents, b.documents},
		{&measure.Table{Title: "An overlay", Explained: "of a base of documents of 4 files of 50–100 bytes, with a patch for each", Of: "documents"}, documents, b.overlay},
	} {
		for _, n := range s.sizes {
			if err := s.rows(s.table, n); err != nil {
				return fmt.Errorf("measuring %d %s: %w", n, s.table.Of, err)
			}
		}
		if err := s.table.Print(out); err != nil {
			return err
		}
		tables = append(tables, s.table)
	}
	fmt.Fprint(out, explained)
	return measure.Finish(out, nil, tables...)
}
