package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// parts are the executables that stories are made of.
type parts struct {
	// assets holds etcd, kube-apiserver and kubectl.
	assets string
	// bin holds the project's binaries.
	bin string
	// root is the repository.
	root string
}

var programs = []string{"bunsen", "machine-config-controller", "machine-config-server", "machine-config-daemon"}

func TestStories(t *testing.T) {
	p := findParts(t)
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup:              func(env *testscript.Env) error { return begin(env, p) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"gitrepo": command((*story).gitrepo), "gitserver": command((*story).gitserver),
			"commit": command((*story).commit), "push": command((*story).push),
			"machines": command((*story).machines), "follow": command((*story).follow),
			"rendered": command((*story).rendered), "updated": command((*story).updated),
			"apply": command((*story).apply), "look": command((*story).look),
			"controller": command((*story).controller), "server": command((*story).server), "host": command((*story).host),
			"crash": command((*story).crash), "restart": command((*story).restart),
			"waitfor": command((*story).waitfor), "let": command((*story).let),
			"watchnodes": command((*story).watchnodes), "budget": command((*story).budget),
			"sameignition": command((*story).sameignition), "foretold": command((*story).foretold),
			"event": command((*story).event),
		},
	})
}

// command gives a method of the story to testscript.
func command(do func(*story, *testscript.TestScript, []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this command cannot be negated")
		}
		ts.Check(do(ts.Value(storyKey{}).(*story), ts, args))
	}
}

// findParts fails where a part is missing: a story that is not told proves nothing.
func findParts(t *testing.T) parts {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := parts{assets: os.Getenv("KUBEBUILDER_ASSETS"), bin: os.Getenv("BUNSEN_BIN"), root: root}
	if p.assets == "" {
		p.assets = filepath.Join(root, "bin", "assets")
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if _, err := os.Stat(filepath.Join(p.assets, name)); err != nil {
			t.Fatalf("no %s to test with: run make assets, or set KUBEBUILDER_ASSETS: %v", name, err)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatalf("no git to test with: run make setup: %v", err)
	}
	if p.bin == "" {
		p.bin = t.TempDir()
		if err := build(p); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func build(p parts) error {
	args := []string{"build", "-o", p.bin}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = p.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the binaries: %w\n%s", err, out)
	}
	return nil
}
