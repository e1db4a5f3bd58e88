package hosttest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

type files struct{ m *process }

func (f files) Stat(p string) (host.Entry, error) {
	at, err := f.m.resolve(p)
	if errors.Is(err, fs.ErrNotExist) {
		return host.Entry{}, nil
	}
	return f.m.disk.nodes[at].entry, err
}

func (f files) Read(p string) ([]byte, error) {
	at, err := f.m.resolve(p)
	if err != nil {
		return nil, err
	}
	n, ok := f.m.disk.nodes[at]
	if !ok {
		return nil, fmt.Errorf("%s: %w", p, fs.ErrNotExist)
	}
	if n.entry.Kind != host.File {
		return nil, fmt.Errorf("%s is a %s, not a file", p, n.entry.Kind)
	}
	return slices.Clone(n.contents), nil
}

// place puts a node at a path without a directory. The parent directory must exist.
func (f files) place(p string, n node) error {
	if o := f.m.Machine.Blockers[p]; o != "" && o != host.InMemory {
		return fmt.Errorf("%s: %w", p, fs.ErrPermission)
	}
	at, err := f.m.resolve(p)
	if err != nil {
		return err
	}
	if parent := f.m.disk.nodes[path.Dir(at)]; parent.entry.Kind != host.Dir {
		return fmt.Errorf("%s: %w", path.Dir(at), fs.ErrNotExist)
	}
	if is := f.m.disk.nodes[at].entry.Kind; is != host.Absent && (is == host.Dir) != (n.entry.Kind == host.Dir) {
		return fmt.Errorf("%s is a %s", p, is)
	}
	f.m.put(at, n)
	return nil
}

func (f files) Write(p string, want host.Entry, contents []byte) error {
	want.Kind, want.Target, want.Digest = host.File, "", host.DigestOf(contents)
	return f.place(p, node{want, slices.Clone(contents)})
}

func (f files) Link(p string, want host.Entry) error {
	if want.Kind == host.Hard { // A copy is enough, because the daemon never writes through one name of a hard link.
		at, err := f.m.resolve(want.Target)
		if err != nil {
			return err
		}
		return f.place(p, f.m.disk.nodes[at])
	}
	want.Kind, want.Mode, want.Digest = host.Link, 0, ""
	return f.place(p, node{entry: want})
}

// same reports whether two names have equal nodes, so that they could be one file.
func (f files) same(a, b string) (bool, error) {
	one, err := f.Stat(a)
	if err != nil || one.Kind == host.Absent {
		return false, err
	}
	other, err := f.Stat(b)
	return one == other, err
}

func (f files) Mkdir(p string, want host.Entry) error {
	want.Kind, want.Target, want.Digest = host.Dir, "", ""
	return f.place(p, node{entry: want})
}

func (f files) Remove(p string) error {
	at, err := f.m.resolve(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if o := f.m.Machine.Blockers[p]; o != "" && o != host.InMemory {
		return fmt.Errorf("%s: %w", p, fs.ErrPermission)
	}
	if f.m.disk.nodes[at].entry.Kind == host.Dir {
		for q := range f.m.disk.nodes {
			if strings.HasPrefix(q, at+"/") {
				return fmt.Errorf("%s: %w", p, host.ErrNotEmpty)
			}
		}
	}
	f.m.put(at, node{})
	return nil
}

type units struct{ m *process }

// sections reads the [Install] sections of a unit's files. If the administrator's file is a link to a unit of another
// name, alias is that unit's file.
func (u units) sections(name string) (s host.Sections, found bool, alias string) {
	s = host.Sections{}
	for _, owner := range host.FileNames(name) {
		for _, dir := range host.UnitDirs {
			for p, n := range u.m.disk.nodes {
				if own := p == dir+"/"+owner; own || path.Dir(p) == dir+"/"+owner+".d" && path.Ext(p) == ".conf" {
					s[p], found = host.SectionLines(n.contents), found || own
					switch {
					case own && host.IsMask(p, n.entry):
						s[p] = host.Masked
						if dir == host.UnitDir && u.isShipped(p) {
							s[p] = host.ShippedMask
						}
					case own && n.entry.Kind == host.Link:
						alias = host.LinkTarget(p, n.entry.Target)
						s[p] = host.SectionLines(u.m.disk.nodes[alias].contents)
					}
				}
			}
		}
	}
	return s, found, alias
}

// isShipped reports whether the OS image has the mask at this path as its default of /etc.
func (u units) isShipped(mask string) bool {
	_, ostree := u.m.disk.nodes[host.ImageMark]
	return ostree && host.IsMask(mask, u.m.disk.nodes["/usr"+mask].entry)
}

func (u units) Status(_ context.Context, name string) (host.Unit, error) {
	var presets [][]byte
	for _, p := range slices.SortedFunc(maps.Keys(u.m.disk.nodes), func(a, b string) int {
		return strings.Compare(path.Base(a), path.Base(b))
	}) {
		if slices.Contains(host.PresetDirs, path.Dir(p)) {
			presets = append(presets, u.m.disk.nodes[p].contents)
		}
	}
	parts, _, alias := u.sections(name)
	is := host.Unit{Enabled: u.m.disk.enabled[name], Preset: host.Preset(presets, name)}.WithSections(name, parts)
	if alias != "" {
		is.AliasOf, is.Obstacle = path.Base(alias), host.Obstacle{Why: host.UnitAlias, At: alias}
	}
	return is, nil
}

func (u units) Enable(ctx context.Context, name string) error {
	is, err := u.Status(ctx, name)
	switch {
	case err != nil:
		return err
	case is.Obstacle.Why == host.UnitMissing:
		return fmt.Errorf("unit %s: %w", name, fs.ErrNotExist)
	case is.Obstacle.Why != "":
		return fmt.Errorf("unit %s %s", name, is.Obstacle.Problem())
	}
	enable := []host.Step{{Verb: host.Enable, Target: name}}
	for _, b := range u.blockers(enable, map[string]string{name: is.Install}) {
		return errors.New(b.String())
	}
	u.m.enable(name, true)
	return nil
}

// Blockers implements host.Units. A unit of a machine in memory has no links, so that links is empty.
func (u units) Blockers(steps []host.Step, install map[string]string) (found []host.Blocker, links []host.Step) {
	return u.blockers(steps, install), nil
}

func (u units) blockers(steps []host.Step, install map[string]string) (found []host.Blocker) {
	is := map[string]host.Entry{}
	for p, n := range u.m.disk.nodes {
		is[p] = n.entry
	}
	ours := map[string]bool{}
	for _, s := range steps {
		if s.IsPath() {
			is[s.Target], ours[s.Target] = s.After.Entry, true
		}
	}
	for _, s := range steps {
		switch s.Verb {
		case host.Enable:
			for line := range strings.Lines(install[s.Target]) {
				target, wanted := strings.CutPrefix(strings.TrimSpace(line), "WantedBy=")
				if !wanted {
					continue
				}
				dir := host.UnitDir + "/" + target + ".wants"
				for _, at := range []string{dir, dir + "/" + s.Target} {
					if k := is[at].Kind; k != host.Absent && k != host.Link && (at != dir || k != host.Dir) {
						found = append(found, host.Blocker{
							Kind: host.LinkTaken, Path: at, At: at, Unit: s.Target, Text: host.KindText(k),
						})
					}
				}
			}
		case host.Reload, host.Restart:
			for _, dir := range host.UnitDirs {
				at := dir + "/" + s.Target
				if e := is[at]; e.Kind == host.Absent {
					continue
				} else if host.IsMask(at, e) {
					b := host.Blocker{Kind: host.MaskedUnit, Path: at, At: at, Unit: s.Target, Text: string(s.Verb)}
					if b.Shipped = dir == host.UnitDir && u.isShipped(at); ours[at] {
						b.At, b.Shipped = "", false
					}
					found = append(found, b)
				}
				break
			}
		}
	}
	return found
}

func (u units) Disable(_ context.Context, name string) error {
	u.m.enable(name, false)
	return nil
}

func (u units) DaemonReload(context.Context) error {
	u.m.logf("daemon-reload")
	return nil
}

func (u units) act(verb, name string) error {
	u.m.logf("%s %s", verb, name)
	for _, b := range u.blockers([]host.Step{{Verb: host.Verb(verb), Target: name}}, nil) {
		return errors.New(b.String())
	}
	if u.m.Broken[name] {
		return fmt.Errorf("job for %s ended as failed", name)
	}
	return nil
}

func (u units) Reload(_ context.Context, name string) error  { return u.act("reload", name) }
func (u units) Restart(_ context.Context, name string) error { return u.act("restart", name) }

// Stop implements host.Units. A broken unit can be stopped.
func (u units) Stop(_ context.Context, name string) error {
	u.m.logf("stop %s", name)
	return nil
}

type system struct{ m *Machine }

func (s system) Status(context.Context) (host.OSStatus, error) { return s.m.os, nil }

// BootSpace implements host.BootChecker.
func (s system) BootSpace(steps []host.Step) host.BootSpace {
	if !slices.ContainsFunc(steps, host.Step.Stages) {
		return host.BootSpace{}
	}
	return s.m.Boot
}

func (s system) Stage(_ context.Context, step host.Step) error {
	can, next := s.m.os.Support, &s.m.os.Next
	kargs := host.EditKargs(next.Kargs, step.Before.Word, step.After.Word)
	if can.OwnKargs != "" && step.Verb == host.SetKargs {
		added, ok := host.AddedArgs(can.OwnKargs, step)
		if !ok {
			return fmt.Errorf("%s: the step does not keep the machine's own arguments %q", step, can.OwnKargs)
		}
		kargs = can.OwnKargs + " " + host.EditKargs(strings.TrimPrefix(next.Kargs, can.OwnKargs), step.Before.Word,
			host.JoinArgs(added))
		kargs = strings.TrimSpace(kargs)
	}
	for _, part := range []struct {
		verb host.Verb
		can  bool
		part *string
		to   string
	}{
		{host.SetImage, can.Image, &next.Image, step.After.Word},
		{host.SetKernelType, can.KernelType, &next.KernelType, step.After.Word},
		{host.SetExtensions, can.Extensions, &next.Extensions, step.After.Word},
		{host.SetKargs, can.Kargs, &next.Kargs, kargs},
	} {
		if part.verb != step.Verb {
			continue
		}
		if !part.can {
			return fmt.Errorf("%s: %w", step.Verb, host.ErrUnsupported)
		}
		*part.part = part.to
		return nil
	}
	return fmt.Errorf("%s is not a part of the OS", step.Verb)
}
