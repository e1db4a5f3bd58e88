package up

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

func parsed(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parse(args, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestWhatIsFollowed(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("mine.git", 0o755); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want source
	}{
		"nothing named: main of the repository that is made": {nil, source{ref: "main"}},
		"a URL: its own default branch":                      {[]string{"--repo", "https://example.com/x.git"}, source{repo: "https://example.com/x.git"}},
		"a URL, a branch and a folder":                       {[]string{"--repo", "https://example.com/x.git", "--ref", "prod", "--path", "a/b"}, source{"https://example.com/x.git", "a/b", "prod"}},
		"a folder beside us, seen from anywhere":             {[]string{"--repo", "mine.git"}, source{repo: filepath.Join(here, "mine.git")}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parsed(t, tc.args...).source; got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestFlagsThatCannotBeMeant(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a word that is no flag":  {[]string{"now"}, `unexpected argument "now"`},
		"fewer than no hosts":     {[]string{"--nodes", "-1"}, "--nodes is -1"},
		"far too many hosts":      {[]string{"--nodes", "5000"}, "--nodes is 5000"},
		"a flag that is not ours": {[]string{"--cluster"}, "-cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			var usage bytes.Buffer
			if _, err := parse(tc.args, &usage); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestEveryPortIsChangedByTheFlagThatAConflictNames(t *testing.T) {
	for i, p := range parsed(t).portList() {
		if got := parsed(t, p.Flag, "4711").portList()[i].Number; got != 4711 {
			t.Errorf("%s 4711 leaves the %s on %d", p.Flag, p.Purpose, got)
		}
	}
}

func TestEverythingThatIsMissingIsSaidAtOnce(t *testing.T) {
	t.Setenv("PATH", "")
	o := parsed(t, "--bin", t.TempDir(), "--config", t.TempDir())
	if err := os.WriteFile(filepath.Join(o.bin, serverProgram), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	err := preflight(o)
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, want := range []string{
		"has no machine-config-controller, no simulated-host, no bunsen: ", "--bin",
		"no kustomization.yaml", "--config", "git is not in PATH",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), serverProgram) {
		t.Errorf("the server is there:\n%v", err)
	}
	if err := preflight(parsed(t, "--bare", "--bin", o.bin)); err != nil {
		t.Errorf("without Bunsen none of it is needed: %v", err)
	}
}

func sessionOf(t *testing.T, args ...string) *session {
	t.Helper()
	o := parsed(t, append([]string{"--data", filepath.Join(t.TempDir(), "data dir")}, args...)...)
	dir, err := plane.OpenDir(o.data)
	if err != nil {
		t.Fatal(err)
	}
	return &session{o: o, dir: dir}
}

func table(s *session) string { return nextSteps{o: s.o, dir: s.dir}.next() }

func TestTheTableCanBePastedIntoAShell(t *testing.T) {
	t.Setenv("HOME", "/home/ada")
	t.Chdir("/")
	s := sessionOf(t, "--bin", "/opt/it's/bin", "--path", "cluster-a")
	got := strings.ReplaceAll(table(s), strings.TrimPrefix(string(s.dir), "/"), "DATA DIR")
	for _, want := range []string{
		"export KUBECONFIG='/DATA DIR/kubeconfig'\n",
		`'opt/it'\''s/bin/kubectl' get mcp,gitsource,nodes` + "\n",
		`'opt/it'\''s/bin/bunsen' status -w` + "\n",
		"git clone '/DATA DIR/config.git' my-config\n",
		"edit a file under my-config/cluster-a/pools/worker, then\n",
		"git -C my-config commit -am 'Change the workers' && git -C my-config push\n",
		`'opt/it'\''s/bin/bunsen' pointer --pool worker --server https://10.0.2.2:22623 > worker.ign      # `,
		`curl --cacert 'DATA DIR/mcs/ca.crt' -H "Authorization: Bearer $('opt/it'\''s/bin/bunsen' token create --pool worker --ttl 1h)" https://127.0.0.1:22623/config/worker` + "\n",
		"'DATA DIR/hosts/node-1' and so on",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
}

// TestTheTableHasTheAddressOfTheConsole: if the console did not start, it has the command.
func TestTheTableHasTheAddressOfTheConsole(t *testing.T) {
	s := sessionOf(t)
	if got := table(s); !strings.Contains(got, "bunsen ui\n") {
		t.Errorf("without a console:\n%s", got)
	}
	if err := os.WriteFile(consoleAddress(s.dir), []byte("http://127.0.0.1:1234/?token=abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := table(s); !strings.Contains(got, "The console     http://127.0.0.1:1234/?token=abc\n") ||
		!strings.Contains(got, "bunsen ui opens another\n") {
		t.Errorf("with a console:\n%s", got)
	}
}

func TestTheTableNamesTheUsersRepository(t *testing.T) {
	s := sessionOf(t, "--repo", "https://example.com/x.git")
	if got := table(s); !strings.Contains(got, "push to https://example.com/x.git") ||
		strings.Contains(got, "git clone") {
		t.Errorf("got\n%s", got)
	}
}

func TestTheBareTableSaysNothingOfBunsen(t *testing.T) {
	s := sessionOf(t, "--bare")
	if got := table(s); strings.Contains(got, "config/worker") || strings.Contains(got, "mcp") {
		t.Errorf("got\n%s", got)
	}
}
