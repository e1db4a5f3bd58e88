package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

func TestTheTablesArePrinted(t *testing.T) {
	var out bytes.Buffer
	measuretest.Figures(t, func() error {
		return run([]string{"-files", "1,4", "-documents", "2,8", "-time", "1ns"}, &out)
	})
	for _, want := range []string{
		"One Butane document:", "Many Butane documents:", "An overlay:", cold, changed,
		unchanged, "Butane", "kustomize",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables say nothing of %q:\n%s", want, &out)
		}
	}
	if err := run([]string{"-documents", "4,1"}, &out); err == nil {
		t.Error("sizes that shrink were taken")
	}
}
