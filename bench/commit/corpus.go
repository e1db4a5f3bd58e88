package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// shape is a kind of repository.
type shape struct {
	name, explained string
	// low and high bound the size of a file in bytes.
	low, high int
	// deep puts all fragments into one pool; else a pool has at most poolSize.
	deep bool
}

// poolSize keeps a pool of 1 to 4 KiB files below the largest object that a cluster stores.
const poolSize = 100

// shapes are those that are measured. No cluster stores a pool of a thousand such fragments, so their number grows in two
// ways: more pools, or smaller files.
var shapes = []shape{
	{name: "wide", explained: "each fragment 3–5 files of 1–4 KiB and a unit, at most 100 fragments a pool", low: 1 << 10, high: 4 << 10},
	{name: "deep", explained: "each fragment 3–5 files of 50–100 bytes and a unit, all in one pool", low: 50, high: 100, deep: true},
}

func (s shape) perPool(fragments int) int {
	if s.deep {
		return fragments
	}
	return min(fragments, poolSize)
}

// corpus is one repository to measure: the same on every run.
type corpus struct {
	fragments, perPool int
	shape
}

// place is the file of a fragment, and its pool.
func (c corpus) place(i int) (pool, path string) {
	pool = fmt.Sprintf("pool-%02d", i/c.perPool)
	return pool, filepath.Join("pools", pool, fmt.Sprintf("%02d-fragment-%04d.bu", 10+i%80, i))
}

// document is the Butane text of a fragment. Another generation has another first file.
func (c corpus) document(i, generation int) string {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	var b strings.Builder
	b.WriteString("variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n")
	for f := range 3 + r.IntN(3) {
		fmt.Fprintf(&b, "    - path: /etc/bench/%04d/%d.conf\n      mode: 0644\n      contents:\n        inline: |\n", i, f)
		text := r
		if f == 0 {
			text = rand.New(rand.NewPCG(uint64(i), uint64(generation)+2))
		}
		for left := c.low + r.IntN(c.high-c.low+1); left > 0; left -= 64 {
			fmt.Fprintf(&b, "          %s\n", line(text, min(left, 64)-1))
		}
	}
	fmt.Fprintf(&b, "systemd:\n  units:\n    - name: bench-%04d.service\n      enabled: true\n      contents: |\n        [Service]\n        ExecStart=/usr/bin/true %d\n        [Install]\n        WantedBy=multi-user.target\n", i, i)
	return b.String()
}

// line is random text that needs no YAML quoting.
func line(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	out := make([]byte, max(n, 1))
	for i := range out {
		out[i] = letters[r.IntN(len(letters))]
	}
	return string(out)
}

// repository makes a git repository of the corpus: the branch main, and beside it changes branches with one more commit
// each, which changes one file of one fragment.
func (c corpus) repository(ctx context.Context, dir string, changes int) error {
	for i := range c.fragments {
		if err := c.write(dir, i, 0); err != nil {
			return err
		}
	}
	if err := runGit(ctx, dir, "init", "--quiet", "--initial-branch=main"); err != nil {
		return err
	}
	if err := record(ctx, dir, "All"); err != nil {
		return err
	}
	for k := range changes {
		changed := (c.fragments/2 + k) % c.fragments
		if err := runGit(ctx, dir, "checkout", "--quiet", "-b", branch(k), "main"); err != nil {
			return err
		}
		if err := c.write(dir, changed, k+1); err != nil {
			return err
		}
		if err := record(ctx, dir, "One"); err != nil {
			return err
		}
	}
	return runGit(ctx, dir, "checkout", "--quiet", "main")
}

func branch(k int) string { return fmt.Sprintf("change-%d", k) }

func (c corpus) write(dir string, i, generation int) error {
	_, path := c.place(i)
	full := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.WriteFile(full, []byte(c.document(i, generation)), 0o644)
}

func record(ctx context.Context, dir, subject string) error {
	if err := runGit(ctx, dir, "add", "--all"); err != nil {
		return err
	}
	return runGit(ctx, dir, "-c", "user.name=Bench", "-c", "user.email=bench@example.com", "commit", "--quiet", "-m", subject)
}

func runGit(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
