package kube

import (
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// RequesterText names the requester of a config, for events and conditions; "" if unknown.
func RequesterText(r v1alpha1.Requester) string {
	return r.Text(func(c v1alpha1.CommitRef) string {
		return ShortRevision(c.Revision) + " " + source.Quote(c.Subject)
	})
}

// ShortRevision returns a revision in the form that events show.
func ShortRevision(revision string) string {
	r, err := source.ParseRevision(revision)
	if err != nil {
		return revision
	}
	return r.Short()
}
