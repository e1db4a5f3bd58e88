package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// state is the content of the disk before a run.
type state struct {
	name string
	// from and to are the versions of the files before and after; 0 means no files.
	from, to int
}

var states = []state{
	{"new", 0, 1},
	{"changed", 1, 2},
	{"unchanged", 1, 1},
}

// bench is a size, and a directory for its runs.
type bench struct {
	dir string
	n   int
}

// inDir is how many files a directory has.
const inDir = 20

func (b bench) path(i int) string { return fmt.Sprintf("/etc/bench%02d/file%04d.conf", i/inDir, i) }

// contents returns the contents of a file in a version.
func (b bench) contents(i, version int) []byte {
	line := fmt.Sprintf("setting-%04d = value of version %d\n", i, version)
	return []byte(strings.Repeat(line, 1500/len(line)))
}

// config returns a config with all files in a version; version 0 has none.
func (b bench) config(version int) machineconfig.Config {
	c := machineconfig.Config{HasIgnition: true}
	for i := 0; version > 0 && i < b.n; i++ {
		source := "data:;base64," + base64.StdEncoding.EncodeToString(b.contents(i, version))
		c.Ignition.Storage.Files = append(c.Ignition.Storage.Files, ign.File{
			Node: ign.Node{Path: b.path(i)}, FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &source}},
		})
	}
	return c
}

// allowed is how many times as long as the first floor, batched, an update may take.
const allowed = 1.3

// measure adds the row of a state: the cost of the update beside the floors. The floor of an update in which nothing
// differs is reading and comparing the files.
func (s state) measure(ctx context.Context, t *measure.Table, limit measure.Limit, b bench) error {
	b.dir = filepath.Join(b.dir, s.name)
	kinds := []measure.Once{func(run int) (measure.Sample, error) { return s.apply(ctx, b, run) }}
	var names []string
	for _, f := range floors {
		if s.from == s.to && len(names) > 0 || s.from != 0 && !f.stamps {
			continue
		}
		names = append(names, f.name)
		kinds = append(kinds, func(run int) (measure.Sample, error) { return s.floor(b, f, run) })
	}
	samples, err := limit.Together(kinds...)
	if err != nil {
		return err
	}
	row := measure.Row{What: s.name, Size: b.n, Sample: samples[0]}
	for i, name := range names {
		row.Peers = append(row.Peers, measure.Took(name, samples[i+1].CPU))
	}
	if s.from != s.to {
		row.Goal.Ratio = allowed
	}
	t.Add(row)
	return nil
}

// apply brings a new machine into the state before, then measures the update.
func (s state) apply(ctx context.Context, b bench, run int) (measure.Sample, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("apply-%d", run))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return measure.Sample{}, err
	}
	h, root, err := linux.OpenSimulated(dir, func(string) {})
	if err != nil {
		return measure.Sample{}, err
	}
	defer root.Close()                  //nolint:errcheck // the directory is deleted afterwards
	if err := root.Lock(); err != nil { // the daemon does the same at its start, which creates its state directory
		return measure.Sample{}, err
	}
	u := update{h: h, from: b.config(0), to: b.config(s.from), record: "before"}
	if s.from > 0 {
		if err := u.read(ctx); err != nil {
			return measure.Sample{}, err
		}
		if _, err := measure.Of(u.parts(ctx)...); err != nil {
			return measure.Sample{}, err
		}
	}
	if err := syncfs(dir); err != nil {
		return measure.Sample{}, err
	}
	u = update{h: h, from: b.config(s.from), to: b.config(s.to), record: "after"}
	if err := u.read(ctx); err != nil {
		return measure.Sample{}, err
	}
	return measure.Of(u.parts(ctx)...)
}

// update is a running update.
type update struct {
	h        host.Host
	from, to machineconfig.Config
	record   string

	way      plan.Transition
	observed host.State
	plan     plan.Plan
	contents map[host.Digest][]byte
}

// read reads both configs, which is not part of the measured update.
func (u *update) read(ctx context.Context) error {
	accounts, err := apply.Accounts(ctx, u.h)
	u.way = plan.NewTransition(plan.Config{Name: "from", Config: u.from}, plan.Config{Name: "to", Config: u.to},
		plan.Rules{}, accounts)
	u.way.Decision.Actions = nil // the actions of units are not part of it either
	return err
}

// parts are the update's steps: read the machine, plan, apply.
func (u *update) parts(ctx context.Context) []func() error {
	return []func() error{
		func() (err error) {
			if u.way, err = apply.Place(u.h, u.way); err != nil {
				return err
			}
			u.observed, err = apply.Observe(ctx, u.h, u.way.Scope())
			return err
		},
		func() error {
			u.plan, u.contents = u.way.Plan(u.observed, []byte(u.record))
			return nil
		},
		func() error {
			done, err := (apply.Runner{Host: u.h}).Run(ctx, u.plan, u.contents)
			if err == nil && done.End != apply.New {
				err = fmt.Errorf("it ended %s: %w", done.End, done.Why)
			}
			return err
		},
	}
}
