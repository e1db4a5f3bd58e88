package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/bench/measure/measuretest"
)

// TestMain lets the process that fetches be one of this program, as it is of the real one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == clientCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheTableIsPrinted(t *testing.T) {
	var out bytes.Buffer
	measuretest.Figures(t, func() error {
		return run(t.Context(), []string{"-files", "20", "-commits", "5", "-refs", "50", "-runs", "1"}, &out)
	})
	for _, want := range []string{
		"nothing new, 10 polls", "one file changed", "50 refs", "of noise outside of the path",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table says nothing of %q:\n%s", want, &out)
		}
	}
}
