package terminal_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

// TestATextFitsTheTerminal: no line is wider than the terminal, except those with a command, and nothing is lost that
// says something.
func TestATextFitsTheTerminal(t *testing.T) {
	pools := terminal.Table{
		Head: []string{"POOL", "TARGET", "COMMIT", "NODES", "UPDATED", "BUSY", "WAITING", "DEGRADED", "STATE"},
		Rows: [][]string{
			{"worker", "rendered-worker-16ad5", "main@sha1:7defe73e", "3", "2", "0", "0", "1", "node-2 failed: no space left on device"},
			{"infra", "rendered-infra-0a1b2", "main@sha1:7defe73e", "0", "0", "0", "0", "0", "Updated"},
		},
	}
	history := terminal.Table{
		Head: []string{"REVISION", "SUBJECT"},
		Rows: [][]string{{"main@sha1:7defe73e", strings.Repeat("a long subject ", 8) + "節点"}, {"-", ""}},
	}
	for _, c := range []struct {
		sentence, text string
		width          int
		want           string
	}{
		{"what fits stays", "POOL     STATE\nworker   Updated\n", 80, "POOL     STATE\nworker   Updated\n"},
		{
			"columns of zeros go, and the last column is below the row", pools.String(), 80,
			"POOL     TARGET                  COMMIT               NODES   UPDATED   DEGRADED\n" +
				"  STATE\n" +
				"worker   rendered-worker-16ad5   main@sha1:7defe73e   3       2         1\n" +
				"  node-2 failed: no space left on device\n" +
				"infra    rendered-infra-0a1b2    main@sha1:7defe73e   0       0         0\n" +
				"  Updated\n",
		},
		{
			"a wide last column is wrapped beside the others", history.String(), 60,
			"REVISION             SUBJECT\n" +
				"main@sha1:7defe73e   a long subject a long subject a long\n" +
				"                     subject a long subject a long subject a\n" +
				"                     long subject a long subject a long\n" +
				"                     subject 節点\n-\n",
		},
		{
			"a heading has a unit", terminal.Table{
				Head: []string{"WHEN (UTC)", "SUBJECT"},
				Rows: [][]string{{"15:57:51", "Forward packets on every worker"}},
			}.String(), 40,
			"WHEN (UTC)   SUBJECT\n" +
				"15:57:51     Forward packets on every\n" +
				"             worker\n",
		},
		{
			"text is wrapped under itself, and a command stays whole",
			"Reason:    " + strings.Repeat("word ", 8) + "\n" +
				"To do:     kubectl -n bunsen-system get pods,leases --all-of-them\n" +
				"           kubectl -n bunsen-system get pods,leases --all-of-them\n", 40,
			"Reason:    word word word word word word\n           word word\n" +
				"To do:     kubectl -n bunsen-system get pods,leases --all-of-them\n" +
				"           kubectl -n bunsen-system get pods,leases --all-of-them\n",
		},
	} {
		if got := terminal.Fit(c.text, c.width); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.sentence, got, c.want)
		}
	}
}

// TestHelpIsWrappedAnew: the line breaks of the source do not count, except those of lists.
func TestHelpIsWrappedAnew(t *testing.T) {
	text := "One sentence that is\nbroken in its source.\n\nA list:\n\n" +
		"  sources      and when the controller listed them\n" +
		"  5  blocked: a user has to act\n     on a policy\n  a line without a column of its own\nAnd the end."
	want := "One sentence that is broken in its\nsource.\n\nA list:\n\n  sources      and when the controller\n" +
		"               listed them\n  5  blocked: a user has to act on a\n     policy\n" +
		"  a line without a column of its own\nAnd the end."
	if got := terminal.Paragraphs(text, 40); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
