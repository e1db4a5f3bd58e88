package inspect

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// trustReport reads what a node reports about the files beside its config; nil if it has none.
func trustReport(n *corev1.Node) *v1alpha1.TrustReport {
	r := new(v1alpha1.TrustReport)
	if text := n.Annotations[v1alpha1.TrustReportAnnotation]; text == "" || json.Unmarshal([]byte(text), r) != nil {
		return nil
	}
	return r
}

// addTrust adds the problems of the files beside a node's config.
func addTrust(b *terminal.Labels, r *v1alpha1.TrustReport, now time.Time) {
	if r == nil {
		return
	}
	add := func(format string, args ...any) { b.Add("Trust", safetext.OneLine(fmt.Sprintf(format, args...))) }
	if r.Failed != "" {
		add("the node keeps its earlier files: %s", r.Failed)
	}
	for _, p := range r.Blocked {
		add("%s   blocked   from %s   %s", p.Path, p.From, p.Why)
	}
	for _, e := range r.Expiring {
		word := "expires"
		if e.Expires.Before(now) {
			word = "expired"
		}
		add("%s   %s %s   from %s", e.Path, word, e.Expires.UTC().Format(time.RFC3339), e.From)
	}
	for _, p := range r.Conflicts {
		add("%s   the config has this path, so the file of %s is not used", p.Path, p.From)
	}
	if r.More > 0 {
		add("and %d more", r.More)
	}
}
