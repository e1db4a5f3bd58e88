package corpus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository is a config repository of a size.
type Repository struct {
	Documents
	// Fragments is how many documents there are in all, PerPool how many of them a pool has.
	Fragments, PerPool int
	// Pools names the pools; a pool beyond them is pool-<number>.
	Pools []string
	// Patches is how many of a pool's documents its overlay patches. The documents then lie in a base. 0 is no overlay.
	Patches int
}

// Change is a branch with one more commit than main: so many documents, evenly spread, each with one other file. Changes of
// another Generation have other contents.
type Change struct {
	Branch     string
	Documents  int
	Generation int
	// First is the first of the documents.
	First int
}

func (c Repository) pool(n int) string {
	if n < len(c.Pools) {
		return c.Pools[n]
	}
	return fmt.Sprintf("pool-%02d", n)
}

// Folder holds the documents of pool number n.
func (c Repository) Folder(n int) string {
	if c.Patches > 0 {
		return "base/" + c.pool(n)
	}
	return "pools/" + c.pool(n)
}

func (c Repository) stem(i int) string { return fmt.Sprintf("%02d-fragment-%04d", 10+i%80, i) }

// Place is the file of a document.
func (c Repository) Place(i int) string {
	return c.Folder(i/c.PerPool) + "/" + c.stem(i) + ".bu"
}

// Write puts a generation of a document into a directory.
func (c Repository) Write(dir string, i, generation int) error {
	return put(dir, c.Place(i), c.Butane(i, generation))
}

// WriteAll puts the whole repository into a directory.
func (c Repository) WriteAll(dir string) error {
	for i := range c.Fragments {
		if err := c.Write(dir, i, 0); err != nil {
			return err
		}
	}
	if c.Patches == 0 {
		return nil
	}
	for n := 0; n*c.PerPool < c.Fragments; n++ {
		if err := c.overlay(dir, n); err != nil {
			return err
		}
	}
	return nil
}

// overlay writes the base's list of documents, and the pool that patches them.
func (c Repository) overlay(dir string, n int) error {
	first, after := n*c.PerPool, min((n+1)*c.PerPool, c.Fragments)
	var base, pool strings.Builder
	base.WriteString("resources:\n")
	fmt.Fprintf(&pool, "resources: [../../%s]\npatches:\n", c.Folder(n))
	patched := min(c.Patches, after-first)
	for i := first; i < after; i++ {
		fmt.Fprintf(&base, "  - %s.bu\n", c.stem(i))
		if (i-first)%((after-first)/patched) == 0 {
			fmt.Fprintf(&pool, "  - path: %s.bu\n", c.stem(i))
			if err := put(dir, "pools/"+c.pool(n)+"/"+c.stem(i)+".bu", Patch(i)); err != nil {
				return err
			}
		}
	}
	if err := put(dir, c.Folder(n)+"/kustomization.yaml", base.String()); err != nil {
		return err
	}
	return put(dir, "pools/"+c.pool(n)+"/kustomization.yaml", pool.String())
}

// Patch changes the first file of a document.
func Patch(i int) string {
	return fmt.Sprintf("storage:\n  files:\n    - path: /etc/bench/%04d/0.conf\n      mode: 0600\n", i)
}

func put(dir, name, text string) error {
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.WriteFile(full, []byte(text), 0o644)
}

// Git makes a git repository of it: the branch main, and a branch for each change. Its objects are packed, as those of a
// clone are.
func (c Repository) Git(ctx context.Context, dir string, changes []Change) error {
	if err := c.WriteAll(dir); err != nil {
		return err
	}
	if err := git(ctx, dir, "init", "--quiet", "--initial-branch=main"); err != nil {
		return err
	}
	if err := record(ctx, dir, "All"); err != nil {
		return err
	}
	for _, change := range changes {
		if err := git(ctx, dir, "checkout", "--quiet", "-b", change.Branch, "main"); err != nil {
			return err
		}
		for k := range change.Documents {
			if err := c.Write(dir, (change.First+k*c.Fragments/change.Documents)%c.Fragments, change.Generation+1); err != nil {
				return err
			}
		}
		if err := record(ctx, dir, fmt.Sprintf("Change %d", change.Documents)); err != nil {
			return err
		}
	}
	if err := git(ctx, dir, "checkout", "--quiet", "main"); err != nil {
		return err
	}
	return git(ctx, dir, "repack", "-q", "-a", "-d")
}

func record(ctx context.Context, dir, subject string) error {
	if err := git(ctx, dir, "add", "--all"); err != nil {
		return err
	}
	return git(ctx, dir, "-c", "user.name=Bench", "-c", "user.email=bench@example.com", "commit", "--quiet", "--allow-empty", "-m", subject)
}

func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "gc.auto=0"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
