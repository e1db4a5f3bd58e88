package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/flow"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
)

// step is the cost of one commit.
type step struct {
	what     string
	rendered time.Duration
	measure.Usage
	// server is the memory of the API server, and etcd the size of its database.
	server, etcd int64
}

// cluster is a measured cluster with its repository.
type cluster struct {
	*flow.Flow
	dir string
}

// follow starts all processes, and measures each commit.
func follow(ctx context.Context, o options) (steps []step, err error) {
	dir, done, err := measure.Scratch()
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := flow.Start(ctx, o.files, dir, plane.MetadataOnly)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	f.Limit = o.limit
	c := &cluster{Flow: f, dir: filepath.Join(dir, "repository")}
	pool := filepath.Join("pools", flow.Pool)
	if err := errors.Join(os.MkdirAll(filepath.Join(c.dir, pool, "files"), 0o755), corpus.Init(ctx, c.dir),
		c.Follow(ctx, c.dir)); err != nil {
		return nil, err
	}
	tool := filepath.Join(pool, "files", "tool")
	for _, change := range []struct {
		what string
		make func() error
	}{
		{"without the file", func() error { return c.write(pool+"/10-motd.bu", small("first")) }},
		{"the file", func() error { return errors.Join(c.noise(tool, 1, o.size), c.write(pool+"/20-tool.bu", large)) }},
		{"another version of the file", func() error { return c.noise(tool, 2, o.size) }},
		{"a change beside the file", func() error { return c.write(pool+"/10-motd.bu", small("second")) }},
	} {
		if err := change.make(); err != nil {
			return nil, err
		}
		s, err := c.measure(ctx, change.what)
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w\n%s", change.what, err, f.Controller.Tail())
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// measure commits the files, and measures until the pool has their config.
func (c *cluster) measure(ctx context.Context, what string) (s step, err error) {
	s.what = what
	hash, err := corpus.Commit(ctx, c.dir, what)
	if err != nil {
		return s, err
	}
	begun := time.Now()
	s.Usage, err = c.Charge(func() error {
		_, err := c.Rendered(ctx, hash)
		s.rendered = time.Since(begun)
		return err
	}, func(plane.Request) {})
	if err != nil {
		return s, err
	}
	if s.server, err = c.Plane.Memory(ctx); err != nil {
		return s, err
	}
	s.etcd, err = c.Plane.StorageSize(ctx)
	return s, err
}

func (c *cluster) write(name, text string) error {
	return os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600)
}

// noise writes a file of random bytes.
func (c *cluster) noise(name string, seed byte, mib int) error {
	f, err := os.Create(filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.NewChaCha8(sha256.Sum256([]byte{seed})), int64(mib)<<20)
	return errors.Join(err, f.Close())
}

// small is a document with its file.
func small(text string) string {
	return "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/motd\n      mode: 0644\n" +
		"      contents: {inline: " + text + "}\n"
}

// large is the document that names the large file.
const large = `variant: fcos
version: 1.6.0
storage:
  files:
    - path: /opt/bin/tool
      mode: 0755
      contents: {local: files/tool}
`
