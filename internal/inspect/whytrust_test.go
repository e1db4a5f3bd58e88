package inspect

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// TestWhyNamesTheFilesBesideTheConfig prints each problem of a report on one line. A report that cannot be read prints
// nothing.
func TestWhyNamesTheFilesBesideTheConfig(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for report, want := range map[string][]string{
		`{"files":2}`: nil,
		`not JSON`:    nil,
		`{"files":1,"failed":"update-ca-trust failed","conflicts":[{"path":"/a","from":"n/a"}],"blocked":[{"path":"/b","from":"n/b","why":"a link\nof a user"}],
			"expiring":[{"path":"/c","from":"n/c","expires":"2026-05-02T00:00:00Z"},{"path":"/d","from":"n/d","expires":"2026-04-01T00:00:00Z"}],"more":3}`: {
			"keeps its earlier files: update-ca-trust failed", "/a   the config has this path, so the file of n/a is " +
				"not used", "/b   blocked   from n/b   a link",
			"/c   expires 2026-05-02T00:00:00Z   from n/c", "/d   expired 2026-04-01T00:00:00Z", "and 3 more",
		},
	} {
		var b terminal.Labels
		addTrust(&b,
			trustReport(
				&corev1.Node{
					ObjectMeta: metav1.ObjectMeta{
						Annotations: map[string]string{v1alpha1.TrustReportAnnotation: report},
					},
				}), now)
		text := b.String()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: it prints\n%s\nwithout %q", report, text, w)
			}
		}
		if lines := strings.Count(strings.TrimSpace(text)+"\n", "\n"); len(want) > 0 && lines != len(want) ||
			len(want) == 0 && strings.TrimSpace(text) != "" {
			t.Errorf("%s: it prints %d lines:\n%s", report, lines, text)
		}
	}
}
