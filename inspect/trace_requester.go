package inspect

import (
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// tracedRequester returns who asked last for a rendered config, and when a commit was made that asked, if that is known. The pool's own
// records come first, as for events; then the histories of the GitSources, then what the config was first rendered for.
func tracedRequester(mc *mcfgv1.MachineConfig, sources []v1alpha1.GitSource, pool map[string]string) (v1alpha1.Requester, string) {
	asked := v1alpha1.RequesterOf(pool, mc.Name)
	for i := range sources {
		history := sources[i].Status.History
		if asked.Revision == "" && len(asked.API) == 0 {
			if c := v1alpha1.AskedBy(history, poolOf(mc), mc.Name); c != nil {
				asked = v1alpha1.Requester{Revision: c.Revision, Subject: c.Subject, Author: c.Author}
			}
		}
		for _, h := range history {
			if h.Revision != asked.Revision || asked.Revision == "" || asked.ByAPI() {
				continue
			}
			if asked.Subject == "" { // a pool's older record has the revision alone
				asked.Subject, asked.Author = h.Subject, h.Author
			}
			if h.Time.IsZero() {
				return asked, ""
			}
			return asked, h.Time.UTC().Format(time.RFC3339)
		}
	}
	if asked.Revision == "" && len(asked.API) == 0 {
		asked = v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], mc.Name)
	}
	return asked, ""
}

// setRequester records who asked last for the rendered config.
func (t *Trace) setRequester(asked v1alpha1.Requester, committed string) {
	t.API, t.AlsoCommit = asked.API, asked.AlsoCommit
	if asked.ByAPI() {
		t.InForce = asked.Revision
		return
	}
	if asked.Revision == "" || asked.Revision == t.Rendered.Revision {
		return
	}
	t.AskedBy = &CommitTrace{Revision: asked.Revision, Subject: asked.Subject, Author: asked.Author, Time: committed}
}

// text is the commit in one line; what is not known of it is left out.
func (c CommitTrace) text() string {
	parts := []string{c.Revision}
	if c.Subject != "" {
		parts = append(parts, source.Quote(c.Subject))
	}
	for _, part := range []string{c.Author, c.Time} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "   ")
}
