package corpus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository describes a config repository of a given size.
type Repository struct {
	Documents
	// Fragments is the number of all documents, and PerPool the number in each pool.
	Fragments, PerPool int
	// Pools has the names of the first pools; further pools are called pool-<number>.
	Pools []string
	// Patches is how many of a pool's documents its overlay patches. The documents are then in a base. 0 means no
	// overlay.
	Patches int
}

// Change is a branch with one more commit than main. The commit changes one file in each of several evenly distributed
// documents. Each Generation has other contents.
type Change struct {
	Branch     string
	Documents  int
	Generation int
	// First is the index of the first changed document.
	First int
}

func (c Repository) pool(n int) string {
	if n < len(c.Pools) {
		return c.Pools[n]
	}
	return fmt.Sprintf("pool-%02d", n)
}

// Folder returns the directory with the documents of pool number n.
func (c Repository) Folder(n int) string {
	if c.Patches > 0 {
		return "base/" + c.pool(n)
	}
	return "pools/" + c.pool(n)
}

func (c Repository) stem(i int) string { return fmt.Sprintf("%02d-fragment-%04d", 10+i%80, i) }

// Place returns the path of a document.
func (c Repository) Place(i int) string {
	return c.Folder(i/c.PerPool) + "/" + c.stem(i) + ".bu"
}

// Write writes a generation of a document to a directory.
func (c Repository) Write(dir string, i, generation int) error {
	return put(dir, c.Place(i), c.Butane(i, generation))
}

// Texts returns all documents, without their patches.
func (c Repository) Texts() (texts [][]byte) {
	for i := range c.Fragments {
		texts = append(texts, []byte(c.Butane(i, 0)))
	}
	return texts
}

// WriteAll writes the whole repository to a directory.
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

// Patch returns a patch of a document's first file.
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

// Git creates a git repository with the branch main and a branch for each change. Its objects are packed, as in a
// clone.
func (c Repository) Git(ctx context.Context, dir string, changes []Change) error {
	if err := c.WriteAll(dir); err != nil {
		return err
	}
	if err := Init(ctx, dir); err != nil {
		return err
	}
	if _, err := Commit(ctx, dir, "All"); err != nil {
		return err
	}
	for _, change := range changes {
		if err := git(ctx, dir, "checkout", "--quiet", "-b", change.Branch, "main"); err != nil {
			return err
		}
		for k := range change.Documents {
			if err := c.Write(dir, (change.First+k*c.Fragments/change.Documents)%c.Fragments, change.Generation+
				1); err != nil {
				return err
			}
		}
		if _, err := Commit(ctx, dir, fmt.Sprintf("Change %d", change.Documents)); err != nil {
			return err
		}
	}
	if err := git(ctx, dir, "checkout", "--quiet", "main"); err != nil {
		return err
	}
	return git(ctx, dir, "repack", "-q", "-a", "-d")
}

// Init makes a directory a git repository with the branch main.
func Init(ctx context.Context, dir string) error {
	return git(ctx, dir, "init", "--quiet", "--initial-branch=main")
}

// Commit commits all files of a repository, and returns the hash of the commit.
func Commit(ctx context.Context, dir, subject string) (string, error) {
	if err := git(ctx, dir, "add", "--all"); err != nil {
		return "", err
	}
	if err := git(ctx, dir, "-c", "user.name=Bench", "-c", "user.email=bench@example.com", "commit", "--quiet",
		"--allow-empty", "-m", subject); err != nil {
		return "", err
	}
	hash, err := exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "HEAD").Output()
	return strings.TrimSpace(string(hash)), err
}

func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "gc.auto=0"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
