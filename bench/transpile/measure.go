package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/peers"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// The states in which a tree is transpiled. The trees have no digest, so the cache of whole trees is not used.
const (
	cold      = "from nothing"
	changed   = "one document changed"
	unchanged = "nothing changed"
	hashed    = "reading and hashing its files"
)

// atOnce is how often a task of less than a millisecond is repeated in one measurement.
const atOnce = 20

// warmUp makes libraries load their data, which they do once in a process. That cost belongs to no row.
func (b bench) warmUp() error {
	overlay, err := peers.Overlay(corpus.Small, 1)
	if err != nil {
		return err
	}
	return peers.Kustomize(overlay)
}

// document adds the rows of one document of n files.
func (b bench) document(t *measure.Table, n int) error {
	c := corpus.Repository{Documents: corpus.Large, Fragments: 1, PerPool: 1}
	c.Files = n
	dir := b.folder("document", n)
	if err := c.WriteAll(dir); err != nil {
		return err
	}
	text := []byte(c.Butane(0, 0))
	return b.states(t, n, c, dir, peer{"Butane", butane(text)})
}

// butane translates documents.
func butane(texts ...[]byte) func() error {
	return func() error {
		_, err := peers.Butane(texts...)
		return err
	}
}

// documents adds the rows of n documents.
func (b bench) documents(t *measure.Table, n int) error {
	c := corpus.Repository{Documents: corpus.Large, Fragments: n, PerPool: n}
	c.Files = 4
	dir := b.folder("documents", n)
	if err := c.WriteAll(dir); err != nil {
		return err
	}
	return b.states(t, n, c, dir, peer{"Butane", butane(c.Texts()...)})
}

// overlay adds the rows of an overlay that patches each of n documents.
func (b bench) overlay(t *measure.Table, n int) error {
	c := corpus.Repository{Documents: corpus.Small, Fragments: n, PerPool: n, Patches: n}
	c.Files = 4
	dir := b.folder("overlay", n)
	if err := c.WriteAll(dir); err != nil {
		return err
	}
	overlay, err := peers.Overlay(c.Documents, n)
	if err != nil {
		return err
	}
	translate := butane(c.Texts()...)
	return b.states(t, n, c, dir, peer{"kustomize and Butane", func() error {
		if err := peers.Kustomize(overlay); err != nil {
			return err
		}
		return translate()
	}})
}

// peer does the same as a directory's transpilation.
type peer struct {
	name string
	do   func() error
}

// states adds the rows of a directory: with empty caches, unchanged, and with one changed document. It measures the
// peer in turn with the first one.
func (b bench) states(t *measure.Table, size int, c corpus.Repository, dir string, p peer) error {
	both, err := b.limit.Together(
		func(int) (measure.Sample, error) {
			return measure.Of(func() error { return fragments(new(transpile.Transpiler), dir) })
		},
		func(int) (measure.Sample, error) { return measure.Of(p.do) },
	)
	if err != nil {
		return err
	}
	other := []measure.Peer{measure.Took(p.name, both[1].CPU)}
	t.Add(measure.Row{What: cold, Size: size, Sample: both[0], Goal: measure.Goal{Ratio: 1}, Peers: other})

	warm := new(transpile.Transpiler)
	if err := fragments(warm, dir); err != nil {
		return err
	}
	both, err = b.limit.Together(
		func(int) (measure.Sample, error) {
			return measure.Many(atOnce, func() error { return fragments(warm, dir) })
		},
		func(int) (measure.Sample, error) { return measure.Many(atOnce, func() error { return digest(dir) }) },
	)
	if err != nil {
		return err
	}
	t.Add(measure.Row{
		What: unchanged, Size: size, Sample: both[0],
		Peers: append([]measure.Peer{measure.Took(hashed, both[1].CPU)}, other...),
	})
	one, err := b.limit.Median(func(run int) (measure.Sample, error) {
		if err := c.Write(dir, c.Fragments/2, run+1); err != nil {
			return measure.Sample{}, err
		}
		return measure.Of(func() error { return fragments(warm, dir) })
	})
	t.Add(measure.Row{What: changed, Size: size, Sample: one, Peers: other})
	return err
}

func fragments(t *transpile.Transpiler, dir string) error {
	out := t.Fragments(source.Tree{Root: dir, FS: os.DirFS(dir)})
	if out.Report.Fatal() || len(out.Fragments) == 0 {
		return fmt.Errorf("transpiling %s: %d fragments: %s", filepath.Base(dir), len(out.Fragments), out.Report)
	}
	return nil
}
