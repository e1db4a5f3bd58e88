package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
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
	err := run(t.Context(), []string{
		"-rounds", "1", "-time", "100ms", "-size", "100000", "-at-once", "2", "-requests", "20", "-machines", "100",
		"-behind-one", "600", "-limit", "2m", "-root", "../..",
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"resumed (", "gzip", "growth of the peak", "one for all", "matchbox"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "have no config") {
		t.Errorf("a machine got no config:\n%s", &out)
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
