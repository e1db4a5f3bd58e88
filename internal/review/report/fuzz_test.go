package report_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/transpile"
)

// FuzzLog: in the log of a job, the only workflow commands are Bunsen's own, one for each finding, and every character
// shows.
func FuzzLog(f *testing.F) {
	for _, text := range []string{
		"plain", "a\n::error::b", "::set-output name=a::b", "  ::add-mask::b", "##[group]a", "a\r##[error]b",
		"%0A::error::b", "a,line=1::b", "\x1b[2J", "\u202e\u200b\U000e0041", "\u2028::error::b", "\xff",
	} {
		f.Add("pools/worker/a.bu", text, text)
		f.Add(text, text, "unknown-key")
	}
	f.Fuzz(func(t *testing.T, file, message, rule string) {
		found := report.Findings{
			Directory: "site", Entries: transpile.Report{
				{Severity: transpile.Warning, Rule: rule, Message: message, File: file, Line: 3, Column: 1},
				{Severity: transpile.Warning, Rule: "unused-file", Message: message},
			},
			Pools: []report.PoolFindings{{Pool: file, Rendered: rule}},
		}
		github, err := found.Write(report.GitHub)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(github, "\n"), "\n")
		if len(lines) != len(found.Entries) {
			t.Errorf("%d commands for %d findings: %q", len(lines), len(found.Entries), github)
		}
		for _, line := range lines {
			properties, _, isCommand := strings.Cut(strings.TrimPrefix(line, "::warning file="), "::")
			if !strings.HasPrefix(line, "::warning file=") || !isCommand || strings.Count(properties, ",") > 3 ||
				strings.Contains(line, "##[") {
				t.Errorf("%q is not the command that Bunsen writes", line)
			}
		}
		text, err := found.Write(report.PlainText)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			start := strings.TrimLeftFunc(line, unicode.IsSpace)
			if strings.HasPrefix(line, "::") || strings.HasPrefix(start, "::") && strings.Contains(start[2:], "::") ||
				strings.Contains(line, "##[") {
				t.Errorf("%q is a command", line)
			}
		}
		for _, r := range github + text {
			if r != '\n' && r != '\t' && (unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) ||
				r >= 0xE0000 && r < 0xE1000) {
				t.Errorf("%U is in %q", r, github+text)
			}
		}
	})
}
