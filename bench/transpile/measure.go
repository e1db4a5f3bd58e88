package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
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
	memory, err := resources(corpus.Small, 1)
	if err != nil {
		return err
	}
	return kustomize(memory)
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
	peer := func() error { return butane(text) }
	return b.states(t, measure.Row{Size: n, Peer: measure.Peer{Name: "butane"}}, dir, peer)
}

// documents adds the rows of n documents.
func (b bench) documents(t *measure.Table, n int) error {
	c := corpus.Repository{Documents: corpus.Large, Fragments: n, PerPool: n}
	c.Files = 4
	dir := b.folder("documents", n)
	if err := c.WriteAll(dir); err != nil {
		return err
	}
	var texts [][]byte
	for i := range n {
		texts = append(texts, []byte(c.Butane(i, 0)))
	}
	peer := func() error { return butane(texts...) }
	if err := b.states(t, measure.Row{Size: n, Peer: measure.Peer{Name: "butane"}}, dir, peer); err != nil {
		return err
	}
	return b.oneChanged(t, c, dir)
}

// overlay adds the rows of an overlay that patches each of n documents.
func (b bench) overlay(t *measure.Table, n int) error {
	c := corpus.Repository{Documents: corpus.Small, Fragments: n, PerPool: n, Patches: n}
	c.Files = 4
	dir := b.folder("overlay", n)
	if err := c.WriteAll(dir); err != nil {
		return err
	}
	memory, err := resources(c.Documents, n)
	if err != nil {
		return err
	}
	peer := func() error { return kustomize(memory) }
	if err := b.states(t, measure.Row{Size: n, Peer: measure.Peer{Name: "kustomize"}}, dir, peer); err != nil {
		return err
	}
	return b.oneChanged(t, c, dir)
}

// states adds the rows of a directory: with empty caches, which row describes, and unchanged. It measures the other
// program in turn.
func (b bench) states(t *measure.Table, row measure.Row, dir string, peer func() error) error {
	both, err := b.limit.Together(
		func(int) (measure.Sample, error) {
			return measure.Of(func() error { return fragments(new(transpile.Transpiler), dir) })
		},
		func(int) (measure.Sample, error) { return measure.Of(peer) },
	)
	if err != nil {
		return err
	}
	row.What, row.Sample, row.Peer.CPU = cold, both[0], both[1].CPU
	t.Add(row)

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
	t.Add(measure.Row{What: unchanged, Size: row.Size, Sample: both[0], Peer: row.Peer})
	t.Add(measure.Row{What: hashed, Size: row.Size, Sample: both[1]})
	return nil
}

// oneChanged adds the row of a directory in which one document changes between two runs.
func (b bench) oneChanged(t *measure.Table, c corpus.Repository, dir string) error {
	warm := new(transpile.Transpiler)
	if err := fragments(warm, dir); err != nil {
		return err
	}
	s, err := b.limit.Median(func(run int) (measure.Sample, error) {
		if err := c.Write(dir, c.Fragments/2, run+1); err != nil {
			return measure.Sample{}, err
		}
		return measure.Of(func() error { return fragments(warm, dir) })
	})
	last := t.Rows[len(t.Rows)-1]
	for _, r := range t.Rows {
		if r.What == cold {
			last.Peer = r.Peer
		}
	}
	t.Add(measure.Row{What: changed, Size: c.Fragments, Sample: s, Peer: last.Peer})
	return err
}

func fragments(t *transpile.Transpiler, dir string) error {
	out := t.Fragments(source.Tree{Root: dir, FS: os.DirFS(dir)})
	if out.Report.Fatal() || len(out.Fragments) == 0 {
		return fmt.Errorf("transpiling %s: %d fragments: %s", filepath.Base(dir), len(out.Fragments), out.Report)
	}
	return nil
}
