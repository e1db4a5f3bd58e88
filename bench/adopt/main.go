package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/internal/adopt"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `Import: a dump of MachineConfigs becomes the files of a config repository. Lineage: each attribute of each item of a rendered
config gets the line that wrote it.
`

const floors = `
No other system that is known to us does either. What they stand beside is a floor: reading the YAML of the dump, and rendering the
pool.
`

// linear is the largest growth that passes as linear. The machine's caches cause the part above 1.
const linear = 1.1

func run(args []string, out io.Writer) error {
	sizes := measure.Sizes{125, 250, 500, 1000}
	limit := measure.Limit{Runs: 5}
	f := flag.NewFlagSet("adopt", flag.ContinueOnError)
	f.Var(&sizes, "sizes", "numbers of MachineConfigs, growing")
	f.DurationVar(&limit.Time, "time", 700*time.Millisecond, "repeat a row until it has taken the CPU for this long; "+
		"each runs at least once")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, done, err := measure.Scratch()
	if err != nil {
		return err
	}
	defer done()
	fmt.Fprint(out, preface, measure.Machine())
	imported := &measure.Table{Title: "Import", Explained: "of one YAML text, each MachineConfig 3–5 files of 1–4 " +
		"KiB and a unit", Of: "MachineConfigs"}
	all := &measure.Table{Title: "Lineage of all items", Explained: "one pool, each fragment 3–5 files of 50–100 " +
		"bytes and a unit", Of: "MachineConfigs", Parts: []string{"layers", "items"}}
	for _, n := range sizes {
		if err := importing(imported, limit, n); err != nil {
			return fmt.Errorf("importing %d: %w", n, err)
		}
		if err := explaining(all, limit, fmt.Sprintf("%s/%d", dir, n), n); err != nil {
			return fmt.Errorf("explaining %d: %w", n, err)
		}
	}
	for _, t := range []*measure.Table{imported, all} {
		if err := t.Print(out); err != nil {
			return err
		}
	}
	fmt.Fprint(out, floors)
	return measure.Finish(out, nil, imported, all)
}

// importing adds the row of a dump of n.
func importing(t *measure.Table, limit measure.Limit, n int) error {
	var dump bytes.Buffer
	for _, mc := range corpus.Large.MachineConfigs(n) {
		text, err := yaml.Marshal(mc)
		if err != nil {
			return err
		}
		dump.WriteString("---\n")
		dump.Write(text)
	}
	both, err := limit.Together(func(int) (measure.Sample, error) {
		return measure.Of(func() error {
			repository, _, err := adopt.Import([]adopt.Input{{Name: "dump.yaml", Data: dump.Bytes()}}, adopt.Options{})
			if err == nil && len(repository.Kept) != n {
				err = fmt.Errorf("%d of %d were taken", len(repository.Kept), n)
			}
			return err
		})
	}, func(int) (measure.Sample, error) { return measure.Of(func() error { return read(dump.Bytes()) }) })
	if err != nil {
		return err
	}
	t.Add(measure.Row{
		What: "import", Size: n, Sample: both[0], Goal: measure.Goal{Growth: linear},
		Peers: []measure.Peer{measure.Took("reading the YAML", both[1].CPU)},
	})
	return nil
}

// read parses the documents of a dump.
func read(dump []byte) error {
	for _, text := range bytes.Split(dump, []byte("---\n"))[1:] {
		var mc mcfgv1.MachineConfig
		if err := yaml.Unmarshal(text, &mc); err != nil {
			return err
		}
	}
	return nil
}

// explaining adds the row of a pool of n fragments.
func explaining(t *measure.Table, limit measure.Limit, dir string, n int) error {
	c := corpus.Repository{Documents: corpus.Small, Fragments: n, PerPool: n, Pools: []string{"worker"}}
	if err := c.WriteAll(dir); err != nil {
		return err
	}
	result := transpile.Fragments(source.Tree{Root: dir, FS: os.DirFS(dir)})
	if result.Report.Fatal() {
		return fmt.Errorf("transpiling: %s", result.Report)
	}
	var mcs []*mcfgv1.MachineConfig
	for _, f := range result.Fragments {
		mcs = append(mcs, f.MachineConfig)
	}
	both, err := limit.Together(func(int) (measure.Sample, error) {
		var layers []lineage.Layer
		return measure.Of(func() (err error) {
			layers, err = lineage.LayersOfPool(result, "worker")
			return err
		}, func() error {
			return explainAll(layers)
		})
	}, func(int) (measure.Sample, error) {
		return measure.Of(func() error {
			_, err := render.Merge("worker", mcs, render.Defaults{})
			return err
		})
	})
	if err != nil {
		return err
	}
	t.Add(measure.Row{
		What: "lineage", Size: n, Sample: both[0], Goal: measure.Goal{Growth: linear},
		Peers: []measure.Peer{measure.Took("rendering", both[1].CPU)},
	})
	return nil
}

// explainAll finds the lineage of all files and units.
func explainAll(layers []lineage.Layer) error {
	l := lineage.New(layers, lineage.Options{})
	for _, layer := range layers {
		for _, f := range layer.Config.Ignition.Storage.Files {
			if _, err := l.Explain(disruption.KindFile, f.Path); err != nil {
				return err
			}
		}
		for _, u := range layer.Config.Ignition.Systemd.Units {
			if _, err := l.Explain(disruption.KindUnit, u.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
