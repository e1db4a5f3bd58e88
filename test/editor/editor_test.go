package editor

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	update  = flag.Bool("update", false, "write what the editor shows into testdata")
	require = flag.Bool("require", false, "fail if there is no Neovim")
)

// TestNeovim plays story.lua in a fresh copy of the quickstart.
func TestNeovim(t *testing.T) {
	nvim, err := exec.LookPath("nvim")
	if err != nil {
		if *require {
			t.Fatal(err)
		}
		t.Skip("there is no nvim: make test-editor installs it")
	}
	bin := os.Getenv("BUNSEN_BIN")
	if bin == "" {
		t.Skip("BUNSEN_BIN does not name the directory of bunsen")
	}
	dir := filepath.Join(t.TempDir(), "quickstart")
	if err := os.CopyFS(dir, os.DirFS("../../examples/quickstart")); err != nil {
		t.Fatal(err)
	}
	story, err := filepath.Abs("story.lua")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), nvim, "--headless", "-u", "NONE", "-i", "NONE", "-n", "-S", story)
	cmd.Dir = dir
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "BUNSEN="+filepath.Join(bin, "bunsen"), "HOME="+home, "XDG_STATE_HOME="+home,
		"XDG_CACHE_HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)
	var shown, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &shown, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &shown, &said)
	}
	t.Logf("%s%s", &shown, &said)
	const golden = "testdata/neovim.txt"
	if *update {
		if err := os.WriteFile(golden, shown.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), shown.String()); diff != "" {
		t.Errorf("-want +got (-update rewrites %s):\n%s", golden, diff)
	}
}
