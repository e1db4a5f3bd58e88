package machineconfig_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

func TestSplitKargs(t *testing.T) {
	for sentence, c := range map[string]struct{ in, want []string }{
		"an entry may hold several":          {[]string{"a=1 b\tc", "d"}, []string{"a=1", "b", "c", "d"}},
		"double quotes keep blanks and stay": {[]string{`dyndbg="file a.c +p; file b.c +p" quiet`}, []string{`dyndbg="file a.c +p; file b.c +p"`, "quiet"}},
		"single quotes quote nothing":        {[]string{"a='x y'"}, []string{"a='x", "y'"}},
		"nothing is an empty list":           {nil, []string{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, machineconfig.SplitKargs(c.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnOpenQuoteOfAKernelArgumentIsRefused(t *testing.T) {
	for entry, want := range map[string]int{`a="x y"`: 0, `a="x`: 1, `"`: 1} {
		if bad := machineconfig.Check(machineconfig.Config{KernelArguments: []string{entry, "quiet"}}); len(
			bad) != want {
			t.Errorf("%s: %v", entry, bad)
		}
	}
}
