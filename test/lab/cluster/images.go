package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BuildPrevious builds the programs of the previous commit beside the test. The function that it returns waits until
// they are built, and serves their images on a cluster. It returns the file with their references.
func BuildPrevious(t testing.TB) func(*Cluster) string {
	t.Helper()
	dir, built := t.TempDir(), make(chan error, 1)
	const script = `git archive HEAD~1 | tar -x -C "$1" && mkdir "$1/built" && cd "$1" &&
CGO_ENABLED=0 nice go build -ldflags "-s -w -X main.version=previous" -o built/ ./cmd/bunsen ./cmd/machine-config-controller ./cmd/machine-config-server ./cmd/machine-config-daemon`
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script, "bash", dir)
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Stderr = os.Stderr
	go func() { built <- cmd.Run() }()
	return func(c *Cluster) string {
		c.t.Helper()
		if err := <-built; err != nil {
			c.t.Fatalf("building the previous commit: %v", err)
		}
		root, err := filepath.Abs(cmd.Dir)
		c.must(err)
		return imagesOf(c, root, filepath.Join(dir, "built"), "previous")
	}
}

// Images makes the images of the programs in BUNSEN_BIN, as a release does, and serves them. It returns the file with
// their references.
func (c *Cluster) Images() string {
	c.t.Helper()
	root, err := filepath.Abs("../../..")
	c.must(err)
	return imagesOf(c, root, c.bin, "test")
}

// imagesOf makes images of the programs in a directory. root is the checkout that the programs were built from.
func imagesOf(c *Cluster, root, bin, version string) string {
	c.t.Helper()
	phase := Clock(c.t)
	dir := c.t.TempDir()
	cmd := exec.Command("go", "run", "-C", filepath.Join(root, "tools"), "./release", "images", "-root", root, "-bin",
		bin, "-o", dir, "-version", version)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("making the images: %v\n%s", err, out)
	}
	c.images.addLayout(filepath.Join(dir, "images"))
	file := filepath.Join(dir, "images.json")
	references, err := os.ReadFile(file)
	c.must(err)
	// Images that were not pushed have a placeholder for their registry.
	text := strings.ReplaceAll(string(references), "image.invalid/", "registry.test/bunsen/")
	c.must(os.WriteFile(file, []byte(text), 0o644))
	phase("images of the programs, version " + version)
	return file
}
