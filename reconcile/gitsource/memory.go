package gitsource

import (
	"sync"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// memory is the state of the sources between reconciliations. If this state is lost, the controller sends more
// requests.
type memory struct {
	listings sync.Map // GitSource name → listing
	warnings sync.Map // GitSource name → appliedWarnings
	failures sync.Map // GitSource name → failedFetch
	checks   sync.Map // GitSource name → checkedCommit
}

// appliedWarnings are the warnings about the applied revision, which stay in the GitSource's status.
type appliedWarnings struct {
	revision string
	warnings []string
}

// forget removes the state of a deleted source.
func (m *memory) forget(name string) {
	m.listings.Delete(name)
	m.warnings.Delete(name)
	m.failures.Delete(name)
	m.checks.Delete(name)
}

// listing returns the last listing of a source; it returns the zero value before the first listing.
func (m *memory) listing(name string) listing {
	v, _ := m.listings.Load(name)
	last, _ := v.(listing)
	return last
}

// lastListings returns the last listing of each repository, by the name of the GitSource.
func (m *memory) lastListings() map[string]v1alpha1.SourceLook {
	out := map[string]v1alpha1.SourceLook{}
	m.listings.Range(func(name, value any) bool {
		out[name.(string)] = value.(listing).report()
		return true
	})
	return out
}

// failedFetch returns the last fetch of a source if it failed; otherwise the zero value.
func (m *memory) failedFetch(name string) failedFetch {
	v, _ := m.failures.Load(name)
	failed, _ := v.(failedFetch)
	return failed
}

// checkedCommit returns the last commit of a source that was checked; the zero value if there is none.
func (m *memory) checkedCommit(name string) checkedCommit {
	v, _ := m.checks.Load(name)
	checked, _ := v.(checkedCommit)
	return checked
}

// warningsOf returns the warnings about the applied revision of a source; the zero value if they are unknown.
func (m *memory) warningsOf(name string) appliedWarnings {
	v, _ := m.warnings.Load(name)
	warnings, _ := v.(appliedWarnings)
	return warnings
}
