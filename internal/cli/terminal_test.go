package cli_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/cli"
)

// TestColoursOfStates: the words of states have colours, and other words of the same text have none.
func TestColoursOfStates(t *testing.T) {
	for plain, want := range map[string]string{
		"POOL     STATE":                        "\x1b[2mPOOL     STATE\x1b[0m",
		"worker   Updated":                      "worker   \x1b[32mUpdated\x1b[0m",
		"worker   Degraded: node-2 failed":      "worker   \x1b[1;31mDegraded\x1b[0m: node-2 failed",
		"pool/worker is blocked: a window":      "pool/worker is \x1b[1;31mblocked\x1b[0m: a window",
		"pool/worker is fine":                   "pool/worker is \x1b[32mfine\x1b[0m",
		"WARNING: no controller leads":          "\x1b[1;31mWARNING:\x1b[0m no controller leads",
		"Reason:    it failed on node-2":        "Reason:    it failed on node-2",
		"The nodes are updated one by one":      "The nodes are updated one by one",
		"a.sh   main@sha1:1   Fix what Updated": "a.sh   main@sha1:1   Fix what Updated",
	} {
		if got := strings.TrimSuffix(cli.Coloured(plain+"\n"), "\n"); got != want {
			t.Errorf("%q is %q, want %q", plain, got, want)
		}
	}
}
