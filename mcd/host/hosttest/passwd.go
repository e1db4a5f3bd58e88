package hosttest

import (
	"context"
	"path"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// passwd stores accounts in the machine's own files, so that String prints them.
type passwd struct{ m *process }

func (p passwd) load() host.Database {
	text := func(at string) string { return string(p.m.disk.nodes[at].contents) }
	return host.Database{Passwd: text(host.PasswdPath), Group: text(host.GroupPath), Shadow: text(host.ShadowPath)}
}

func (p passwd) save(d host.Database) {
	for at, text := range map[string]string{
		host.PasswdPath: d.Passwd, host.GroupPath: d.Group,
		host.ShadowPath: d.Shadow,
	} {
		n := p.m.disk.nodes[at]
		if string(n.contents) == text {
			continue
		}
		n.contents, n.entry.Digest = []byte(text), host.DigestOf([]byte(text))
		p.m.put(at, n)
	}
}

func (p passwd) User(_ context.Context, name string) (host.User, []byte, error) {
	u, password := p.load().User(name)
	return u, []byte(password), nil
}

func (p passwd) Group(_ context.Context, name string) (host.Group, error) {
	return p.load().GroupOf(name), nil
}

func (p passwd) SetUser(_ context.Context, name string, want host.User, password []byte) error {
	d := p.load()
	if err := d.SetUser(name, want, string(password)); err != nil {
		return err
	}
	p.save(d)
	return nil
}

func (p passwd) SetGroup(_ context.Context, name string, want host.Group) error {
	d := p.load()
	if err := d.SetGroup(name, want); err != nil {
		return err
	}
	p.save(d)
	return nil
}

func (p passwd) Skeleton(context.Context) (files []host.SkeletonFile, _ error) {
	for _, at := range sortedPaths(p.m.disk.nodes) {
		if rel, ok := strings.CutPrefix(at, "/etc/skel/"); ok {
			n := p.m.disk.nodes[at]
			files = append(files, host.SkeletonFile{Path: path.Clean(rel), Entry: n.entry, Contents: n.contents})
		}
	}
	return files, nil
}
