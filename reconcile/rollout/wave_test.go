package rollout_test

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

var update = flag.Bool("update", false, "rewrite the waves in testdata")

// noon is the time of every test.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestWaves replays testdata/*.txtar: a pool as text, and the wave that follows from it as text.
func TestWaves(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no waves in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f := parseFacts(t, string(ar.Files[0].Data))
			got := print(f, rollout.Next(f, noon))
			if *update {
				ar.Files = append(ar.Files[:1], txtar.File{Name: "wave", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(ar.Files) != 2 {
				t.Fatalf("%s holds no wave yet: run with -update and read the diff", file)
			}
			if diff := gocmp.Diff(string(ar.Files[1].Data), got); diff != "" {
				t.Errorf("another wave (-want +got):\n%s", diff)
			}
		})
	}
}

// parseFacts reads a pool: a line of its own, then a line per node, `name current desired state [key[=value]]…`.
func parseFacts(t *testing.T, text string) rollout.Facts {
	t.Helper()
	f := rollout.Facts{Pool: "worker", MaxUnavailable: 1}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0:
		case words[0] == "pool":
			for _, w := range words[1:] {
				poolWord(t, &f, w)
			}
		default:
			f.Nodes = append(f.Nodes, parseNode(t, words))
		}
	}
	return f
}

func poolWord(t *testing.T, f *rollout.Facts, word string) {
	t.Helper()
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "target":
		f.Target = value
	case "paused":
		f.Paused = true
	case "max":
		if _, err := fmt.Sscan(value, &f.MaxUnavailable); err != nil {
			t.Fatalf("pool word %q: %v", word, err)
		}
	case "host":
		f.Host = value
	default:
		t.Fatalf("unknown word %q for a pool", word)
	}
}

func parseNode(t *testing.T, words []string) rollout.Node {
	t.Helper()
	absent := func(s string) string { return strings.TrimPrefix(s, "-") }
	n := rollout.Node{Name: words[0], State: absent(words[3])}
	n.Config.Current, n.Config.Desired = absent(words[1]), absent(words[2])
	ago := func(s string) time.Time {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("node %s: %v", n.Name, err)
		}
		return noon.Add(-d)
	}
	for _, word := range words[4:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "zone":
			n.Zone = value
		case "age":
			n.Created = ago(value)
		case "notready":
			n.Health = rollout.Health{Trouble: "not Ready", Since: ago(value)}
		case "cordoned":
			n.Cordon = rollout.Cordon{Unschedulable: true}
		case "cordoned-for":
			n.Cordon = rollout.Cordon{Unschedulable: true, For: value}
		case "draining":
			n.Step.Draining, n.Step.DrainStarted = true, ago(value)
		case "rebooting":
			n.Step.Rebooting = true
		case "taint":
			n.Tainted = true
		case "image":
			n.Config.CurrentImage, n.Config.DesiredImage = value, value
		case "reason":
			n.Reason = strings.ReplaceAll(value, "_", " ")
		default:
			t.Fatalf("unknown word %q for node %s", word, n.Name)
		}
	}
	return n
}

// print writes a wave and the pool's counts as text.
func print(f rollout.Facts, w rollout.Wave) string {
	var b strings.Builder
	for _, a := range w.Assign {
		fmt.Fprintf(&b, "tell %s %s, was %s", a.Node, a.Config, cmp.Or(a.Was, "nothing"))
		for _, extra := range []struct {
			is   bool
			text string
		}{{a.Recovery, "recovery"}, {a.DropImage, "drop its image"}, {a.Untaint, "untaint"}} {
			if extra.is {
				b.WriteString(", " + extra.text)
			}
		}
		b.WriteString("\n")
	}
	for _, x := range w.Wait {
		fmt.Fprintf(&b, "%s waits, %s: %s\n", x.Node, x.Cause, x.Reason)
	}
	if len(w.Taint) > 0 {
		fmt.Fprintf(&b, "taint %s\n", strings.Join(w.Taint, " "))
	}
	if len(w.Untaint) > 0 {
		fmt.Fprintf(&b, "untaint %s\n", strings.Join(w.Untaint, " "))
	}
	if w.LookAgain > 0 {
		fmt.Fprintf(&b, "look again in %s\n", w.LookAgain)
	}
	c := rollout.Count(f)
	fmt.Fprintf(&b, "%d machines: %d updated, %d ready, %d unavailable, %d degraded\n", c.Machines, c.Updated, c.Ready, c.Unavailable, c.Degraded)
	return b.String()
}
