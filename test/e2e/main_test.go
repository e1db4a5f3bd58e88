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
	// lab holds what the lab's machines run besides.
	lab string
}

var programs = []string{
	"bunsen", "machine-config-controller", "machine-config-server", "machine-config-daemon",
	"simulated-host",
}

func TestStories(t *testing.T) {
	t.Parallel()
	p := findParts(t)
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, do := range storyCommands {
		commands[name] = command(do)
	}
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup:              func(env *testscript.Env) error { return begin(env, p) },
		Cmds:               commands,
	})
}

// storyCommands are what every story can do.
var storyCommands = map[string]func(*story, *testscript.TestScript, []string) error{
	"gitrepo": (*story).gitrepo, "gitserver": (*story).gitserver, "commit": (*story).commit,
	"push": (*story).push, "machines": (*story).machines, "follow": (*story).follow,
	"rendered": (*story).rendered, "updated": (*story).updated, "apply": (*story).apply, "look": (*story).look,
	"controller": (*story).controller, "server": (*story).server, "host": (*story).host,
	"crash": (*story).crash, "restart": (*story).restart, "waitfor": (*story).waitfor, "let": (*story).let,
	"watchnodes": (*story).watchnodes, "budget": (*story).budget, "sameignition": (*story).sameignition,
	"foretold": (*story).foretold, "event": (*story).event, "committed": (*story).committed,
	"token": (*story).token, "ask": (*story).ask, "serves": (*story).serves, "apiserver": (*story).apiserver,
	"mirror": (*story).mirror,
	"unpack": (*story).unpack, "csr": (*story).csr, "join": (*story).join, "bare": (*story).bare,
	"pointed":  (*story).pointed,
	"upstream": (*story).upstream, "kubelets": (*story).kubelets,
	"eventually": (*story).eventually, "announce": (*story).announce,
	"echo": (*story).echo, "judged": (*story).judged, "marked": (*story).marked, "notifier": (*story).notifier,
	"registry": (*story).registry,
	"canaries": (*story).canaries, "searched": (*story).searched,
	"own": (*story).own, "moved": (*story).moved,
	"todo": (*story).todo, "fine": (*story).fine,
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
	args := []string{"-C", p.root, "build", "-o", p.bin}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("building the binaries: %w\n%s", err, out)
	}
	return nil
}
