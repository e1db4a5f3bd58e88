package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

// TestMain lets the parts of a measurement be processes of this program, as they are of the real one.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(context.Background(), role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestAllIsServed measures a little of everything, with the real server, and prints every table.
func TestAllIsServed(t *testing.T) {
	var out bytes.Buffer
	figures := measuretest.Figures(t, func() error {
		return run(t.Context(), []string{
			"-rounds", "1", "-time", "100ms", "-size", "100000", "-at-once", "2", "-requests", "20", "-machines", "100",
			"-behind-one", "600", "-limit", "2m", "-root", "../..",
		}, &out)
	})
	for _, want := range []string{"resumed (", "gzip", "growth of the peak", "one for all", "net/http"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	for _, f := range figures {
		if strings.Contains(f.What, "without a config") && !f.Verdict().Met() {
			t.Errorf("a machine got no config: %s", f)
		}
	}
	t.Log(out.String())
}

// TestFlags are refused before anything is started.
func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "-1"}, {"-size", "10"}, {"-at-once", "8,1"}, {"-machines", "-1"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

func TestSourcesAreManyAddressesOfThisMachine(t *testing.T) {
	seen := map[string]bool{}
	for n := range 6000 {
		a := source(n).String()
		if seen[a] || !strings.HasPrefix(a, "127.") {
			t.Fatalf("client %d comes from %s", n, a)
		}
		seen[a] = true
	}
}
