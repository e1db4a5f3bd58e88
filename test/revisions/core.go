package revisions

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// Core says in which way the controllers of a history are worse than the real ones. The zero value has the real ones.
// A test that wants to see a rule broken takes a guard away.
type Core struct {
	// View changes what a list of the render or the rollout controller returns.
	View func(s *session, list client.ObjectList)
	// Record changes what the source controller records in a GitSource.
	Record func(s *session, status *v1alpha1.GitSourceStatus)
	// Content changes what the source controller keeps of a revision, to restore it.
	Content func(c *revision.Content)
	// Gate changes what a rollout of a pool waits for.
	Gate func(g gate) gate
	// OnlyChanges has the source controller write only those statuses that differ from the one in its cache.
	OnlyChanges bool
	// NoDryRun has a dry run that refuses nothing.
	NoDryRun bool
}

// Real has the controllers that ship.
func Real() Core { return Core{} }
