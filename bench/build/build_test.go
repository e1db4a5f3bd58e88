package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheTableIsPrinted(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-sizes", "2,8", "-time", "1ns"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"One pool:", "from nothing", "(n log n)", "From 2 to 8 fragments"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table says nothing of %q:\n%s", want, &out)
		}
	}
	if err := run(t.Context(), []string{"-sizes", "many"}, &out); err == nil {
		t.Error("a size that is no number was taken")
	}
}
