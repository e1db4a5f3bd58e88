package notify_test

import (
	"regexp"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/notify"
)

// hostileTexts are what a node may report, and the controller quotes in conditions and records.
var hostileTexts = []string{
	"n1: @all please look", "n1: [fix](https://evil.example)", "n1: ![](https://evil.example/x.png)",
	"n1: <img src=x onerror=alert(1)><script>alert(1)</script>", "n1: `` ` `` @all", "n1: ` @all `", "n1: `@all",
	"n1 | **rolled out** | 40/40 |", "n1: x\n\n# Approved\n@all", "n1: x\r\r# Approved",
	"n1: <!-- bunsen:plan:v1:x -->",
	"n1: --> @all", "n1: {{.Pool}} {{json .}}", "n1: \u202e@all\u2028# Approved", "n1: \x1b[31m@all",
	"n1: #1 !2 $(x) ~x~",
	"", " ", "`", "\\` @all", "n1: https://evil.example/`@all`", strings.Repeat("`@all` ", 200),
}

// codeSpan is a code span as Bunsen writes it, with one backtick at each end.
var codeSpan = regexp.MustCompile("`[^`\n\r]*`")

// TestWhatANodeReportsIsTextInAComment: what stands outside of code spans is Bunsen's own, in as many lines as without
// the node's text.
func TestWhatANodeReportsIsTextInAComment(t *testing.T) {
	body := func(text string) string {
		halted := func(_ *mcfgv1.MachineConfigPool, r *v1alpha1.RolloutRecord) {
			r.Verdict, r.Why, r.Updated = "Halted", text, 3
		}
		src := source(entry(hashB, map[string]string{"worker": "rendered-worker-b1234567"}),
			entry(hashA, map[string]string{"worker": "rendered-worker-a"}))
		return facts(src, pool("rendered-worker-b1234567", 3, halted)).Commits(src)[0].Outcome.Body(
			&notify.Forecast{Author: text, Nodes: 40}, nil)
	}
	own := codeSpan.ReplaceAllString(body("x"), "CODE")
	for _, text := range hostileTexts {
		if is := codeSpan.ReplaceAllString(body(text), "CODE"); is != own {
			t.Errorf("%q changes the comment:\n%s\nwant\n%s", text, is, own)
		}
		if strings.ContainsAny(body(text), "\x1b\u202e\u2028") {
			t.Errorf("%q is not shown as text", text)
		}
	}
}

// TestWhatANodeReportsIsNoTemplate: a template of a Notification gets the text, and executes nothing in it; a status
// and a message are one line.
func TestWhatANodeReportsIsNoTemplate(t *testing.T) {
	tpl, err := notify.ParseTemplate(`{{.Message}}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range hostileTexts {
		if got, err := tpl.Execute(notify.Event{Message: text}); err != nil || got != text {
			t.Errorf("%q becomes %q, %v", text, got, err)
		}
		degraded := func(p *mcfgv1.MachineConfigPool, _ *v1alpha1.RolloutRecord) {
			p.Status.DegradedMachineCount = 1
			set(p, mcfgv1.MachineConfigPoolNodeDegraded, "", text)
		}
		src := source(entry(hashB, map[string]string{"worker": "b"}), entry(hashA, map[string]string{"worker": "a"}))
		for _, s := range facts(src, pool("b", 3, degraded)).Commits(src)[0].Statuses {
			if strings.ContainsAny(s.Description, "\n\r\x1b\u202e\u2028") || len([]rune(s.Description)) > 300 {
				t.Errorf("%q makes the status %q", text, s.Description)
			}
		}
	}
}
