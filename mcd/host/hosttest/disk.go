package hosttest

import (
	"context"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// platter is a simulated disk with a write cache. The cache has all changes until they are flushed.
type platter struct {
	// nodes and enabled are the state that all processes see.
	nodes   map[string]node
	enabled map[string]bool
	// past has earlier nodes of changed paths, the durable one first. wasEnabled has the durable state of changed
	// units.
	past       map[string][]node
	wasEnabled map[string]bool
}

// accounts are the files that are never empty, even after a power cut.
var accounts = []string{host.PasswdPath, host.GroupPath, host.ShadowPath}

// unitKey is the prefix of a unit's key among the paths that a process changed.
const unitKey = "unit "

func newPlatter() *platter {
	return &platter{map[string]node{}, map[string]bool{}, map[string][]node{}, map[string]bool{}}
}

// settle makes everything durable.
func (d *platter) settle() {
	clear(d.past)
	clear(d.wasEnabled)
}

// settleOne makes a path or unit durable.
func (d *platter) settleOne(key string) {
	if unit, ok := strings.CutPrefix(key, unitKey); ok {
		delete(d.wasEnabled, unit)
		return
	}
	delete(d.past, key)
}

// lose simulates the data loss of a power cut. A path gets any of its states since the last flush, and a file that is
// not durable may become empty. A path without its directory is removed.
func (d *platter) lose(r *rand.Rand) {
	for _, p := range slices.Sorted(maps.Keys(d.past)) {
		states := append(d.past[p], d.nodes[p])
		i := r.IntN(len(states))
		n := states[i]
		if i > 0 && n.entry.Kind == host.File && !slices.Contains(accounts, p) && r.IntN(3) == 0 {
			n.contents, n.entry.Digest = nil, host.DigestOf(nil)
		}
		d.set(p, n)
	}
	for _, p := range sortedPaths(d.nodes) { // In sorted paths, a directory comes before its entries.
		if p != "/" && d.nodes[path.Dir(p)].entry.Kind != host.Dir {
			delete(d.nodes, p)
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(d.wasEnabled)) {
		if r.IntN(2) == 0 {
			d.setEnabled(unit, d.wasEnabled[unit])
		}
	}
	d.settle()
}

// set sets the node at a path; the zero node removes it.
func (d *platter) set(p string, n node) {
	if n.entry.Kind == host.Absent {
		delete(d.nodes, p)
		return
	}
	d.nodes[p] = n
}

func (d *platter) setEnabled(unit string, is bool) {
	if !is {
		delete(d.enabled, unit)
		return
	}
	d.enabled[unit] = true
}

// process is one process that changes a machine, with the paths and units that it has changed. process implements
// host.Disk.
type process struct {
	*Machine
	changed map[string]bool
	// batching is true while changes wait for a Flush.
	batching bool
}

// put changes the node at a path.
func (p *process) put(at string, n node) {
	p.disk.past[at] = append(p.disk.past[at], p.disk.nodes[at])
	p.disk.set(at, n)
	p.did(at)
}

// enable enables or disables a unit.
func (p *process) enable(unit string, is bool) {
	if _, known := p.disk.wasEnabled[unit]; !known {
		p.disk.wasEnabled[unit] = p.disk.enabled[unit]
	}
	p.disk.setEnabled(unit, is)
	p.did(unitKey + unit)
}

func (p *process) did(key string) {
	if !p.batching {
		p.disk.settleOne(key)
		return
	}
	p.changed[key] = true
}

// Batch implements host.Disk.
func (p *process) Batch() { p.batching = true }

// Flush implements host.Disk.
func (p *process) Flush(context.Context) error {
	for key := range p.changed {
		p.disk.settleOne(key)
	}
	clear(p.changed)
	p.batching = false
	return nil
}

// Blockers implements host.Disk. A machine in memory has only the blockers that a test sets, used directories, and
// names that are too long.
func (p *process) Blockers(steps []host.Step, _ func(host.Digest) int64) (found []host.Blocker) {
	for _, s := range steps {
		if !s.IsPath() {
			continue
		}
		o := host.Blocker{Kind: p.Machine.Blockers[s.Target], Path: s.Target, At: s.Target}
		at, err := p.resolve(s.Target)
		if to := s.After.Entry.Kind; err == nil && o.Kind == "" && to != host.Dir && to != host.Absent {
			var names []string
			for _, q := range sortedPaths(p.disk.nodes) {
				if path.Dir(q) == at && p.disk.nodes[at].entry.Kind == host.Dir {
					names = append(names, path.Base(q))
				}
			}
			if left := host.EntriesLeft(s.Target, names, steps); len(left) > 0 {
				o.Kind, o.Text = host.UsedDir, host.EntriesText(left)
			}
		}
		if to := s.After.Entry.Kind; o.Kind == "" && to == host.File && len(path.Base(s.Target)) > 255 {
			o.Kind, o.At, o.Text = host.Denied, path.Dir(s.Target), "file name too long"
		}
		if o.Kind != "" {
			found = append(found, o)
		}
	}
	return found
}

// Resume implements host.Disk.
func (p *process) Resume(_ context.Context, steps []host.Step) error {
	dirs := map[string]bool{}
	for _, s := range steps {
		switch {
		case s.IsPath():
			at, err := p.resolve(s.Target)
			if err != nil {
				continue // The directory does not exist.
			}
			p.changed[at] = true
			dirs[path.Dir(at)] = true
		case s.Verb == host.Enable || s.Verb == host.Disable:
			p.changed[unitKey+s.Target] = true
		default:
			for _, at := range accounts {
				p.changed[at] = true
			}
		}
	}
	for _, at := range sortedPaths(p.disk.nodes) {
		if name := path.Base(at); dirs[path.Dir(at)] && strings.HasPrefix(name, ".") && strings.HasSuffix(name,
			host.NewSuffix) {
			p.put(at, node{})
		}
	}
	return nil
}
