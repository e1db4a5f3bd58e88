package fleet

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func TestWhatSomebodyChanged(t *testing.T) {
	item := func(name, kind, more string) string {
		return `{"name":"` + name + `","kind":"` + kind + `","action":"Degrade","since":"2026-01-02T11:50:00Z"` +
			more + `}`
	}
	motd := item("/etc/motd", "content", `,"modified":"2026-01-02T11:49:00Z"`)
	for sentence, tc := range map[string]struct {
		items []string
		more  string
		want  string
	}{
		"nothing": {},
		"the contents of a file": {
			[]string{motd},
			"",
			"/etc/motd was changed by hand (content, modified 2026-01-02 11:49:00 UTC; by whom is not recorded)",
		},
		"a mode": {
			[]string{item("/etc/motd", "mode", "")},
			"",
			"/etc/motd was changed by hand (mode; by whom is not recorded)",
		},
		"two files": {
			[]string{item("/etc/issue", "owner", ""), motd},
			"",
			"/etc/issue, /etc/motd were changed by hand (by whom is not recorded)",
		},
		"what is repaired or only reported is no reason": {
			[]string{strings.Replace(item("/etc/issue", "owner", ""), "Degrade", "Report", 1), motd},
			"",
			"/etc/motd was changed by hand (content, modified 2026-01-02 11:49:00 UTC; by whom is not recorded)",
		},
		"a file is gone":                            {[]string{item("/etc/motd", "missing", "")}, "", "/etc/motd was removed by hand (by whom is not recorded)"},
		"what needs advice, the daemon says":        {[]string{item("/etc/motd", "mode", `,"why":"immutable"`)}, "", ""},
		"what the report omits, the daemon may say": {[]string{motd}, `,"more":1`, ""},
		"a long report is not on a screen": {
			[]string{item("/etc/"+strings.Repeat("x", ShortDrift), "mode", "")}, "", "",
		},
		"a kind that no daemon writes": {[]string{item("/etc/motd", "colour", "")}, "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				v1alpha1.DriftAnnotation: `{"config":"rendered-worker-1","items":[` + strings.Join(tc.items, ",") + "]" +
					tc.more + "}",
			}}}
			if got := driftText(n); got != tc.want {
				t.Errorf("the text is %q, not %q", got, tc.want)
			}
		})
	}
}

// TestANodeThatSomebodyChanged is told from one that failed otherwise, by the daemon's own record.
func TestANodeThatSomebodyChanged(t *testing.T) {
	item := func(action, since string) string {
		return `{"name":"/etc/motd","kind":"content","action":"` + action + `","since":"2026-01-02T` + since + `Z"}`
	}
	failure := func(cause, config string) string {
		return `{"cause":"` + cause + `","config":"` + config + `","since":"2026-01-02T09:00:00Z"}`
	}
	const config = "rendered-worker-1"
	for sentence, tc := range map[string]struct{ failure, items, want string }{
		"nothing is said":                     {"", "", ""},
		"the failure says so, and since when": {failure("Drift", config), item("Degrade", "11:00:00"), "09:00"},
		"the failure is another one":          {failure("Uncordon", config), item("Degrade", "11:00:00"), ""},
		"the failure is of another config":    {failure("Uncordon", "x"), item("Degrade", "11:00:00"), "11:00"},
		"there is only a report, since its first": {
			"", item("Report", "07:00:00") + "," + item("Degrade", "11:00:00") + "," + item("Degrade", "10:00:00"), "10:00",
		},
		"what is only reported degrades nothing": {"", item("Report", "11:00:00"), ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				v1alpha1.DesiredConfigAnnotation: config, v1alpha1.FailureAnnotation: tc.failure,
				v1alpha1.DriftAnnotation: `{"config":"` + config + `","items":[` + tc.items + "]}",
			}}}
			got := ""
			if since, is := Drifted(n); is {
				got = since.UTC().Format("15:04")
			}
			if got != tc.want {
				t.Errorf("it was changed at %q, not %q", got, tc.want)
			}
		})
	}
}
