package revision

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TargetFacts is what a pool was rendered to, and from what.
type TargetFacts struct {
	// Pool by name, and Config that it was rendered to.
	Pool, Config string
	// Commit that was applied last of the sources that own Inputs; the zero CommitInfo where there is none.
	Commit v1alpha1.CommitInfo
	// Inputs are the MachineConfigs that the pool was rendered from.
	Inputs []v1alpha1.TargetInput
	// Sources maps each GitSource that exists and owns inputs, or owned some before, to its applied revision.
	Sources map[string]string
}

// NextTarget returns the record of a pool's target after a render. It finds out who asked for a config that is new: a difference in
// the inputs of a source whose revision moved comes from its commit, and every other difference came through the API. The API
// changes have no manager and no time yet.
func NextTarget(was v1alpha1.PoolTarget, f TargetFacts) v1alpha1.PoolTarget {
	t := v1alpha1.PoolTarget{Requester: was.Requester, Config: f.Config, Before: was.Before, Inputs: f.Inputs, Sources: f.Sources}
	if was.Config == f.Config {
		return t
	}
	t.Requester, t.Before = v1alpha1.Requester{Revision: f.Commit.Revision, Subject: f.Commit.Subject, Author: f.Commit.Author}, ""
	if was.Config != "" && was.Inputs == nil {
		return t // a controller that recorded no inputs made the config before, so nothing can be compared
	}
	changes, commit := f.differences(was)
	t.API, t.AlsoCommit = changes, commit && len(changes) > 0
	if t.ByAPI() {
		if t.Before = was.Config; was.ByAPI() && was.Revision == t.Revision {
			t.Before = was.Before
		}
	}
	return t
}

// differences are the inputs that changed through the API, and whether others changed by a commit.
func (f TargetFacts) differences(was v1alpha1.PoolTarget) (changes []v1alpha1.APIChange, commit bool) {
	moved := func(source string) bool { return f.Sources[source] != "" && f.Sources[source] != was.Sources[source] }
	anyMoved, reselected := false, false
	for source := range f.Sources {
		anyMoved = anyMoved || moved(source)
	}
	add := func(name string, action v1alpha1.APIAction) {
		changes = append(changes, v1alpha1.APIChange{Kind: KindMachineConfig, Name: name, Action: action})
	}
	for _, in := range f.Inputs {
		old, had := inputNamed(was.Inputs, in.Name)
		_, inGit := f.Sources[in.Source]
		switch {
		case had && old.Digest == in.Digest:
		case inGit && moved(in.Source):
			commit = true
		case had:
			add(in.Name, v1alpha1.APIChanged)
		case inGit:
			reselected = true
		default:
			add(in.Name, v1alpha1.APICreated)
		}
	}
	for _, old := range was.Inputs {
		if _, has := inputNamed(f.Inputs, old.Name); has {
			continue
		}
		switch _, inGit := f.Sources[old.Source]; {
		case inGit && moved(old.Source):
			commit = true
		case inGit:
			reselected = true
		default:
			add(old.Name, v1alpha1.APIDeleted)
		}
	}
	if reselected && anyMoved { // a commit of another source changed the pool's selector
		commit = true
	} else if reselected {
		changes = append(changes, v1alpha1.APIChange{Kind: KindMachineConfigPool, Name: f.Pool, Action: v1alpha1.APIChanged})
	}
	slices.SortFunc(changes, func(a, b v1alpha1.APIChange) int { return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name) })
	return changes[:min(len(changes), v1alpha1.MaxAPIChanges)], commit
}

func inputNamed(list []v1alpha1.TargetInput, name string) (v1alpha1.TargetInput, bool) {
	at := slices.IndexFunc(list, func(in v1alpha1.TargetInput) bool { return in.Name == name })
	if at < 0 {
		return v1alpha1.TargetInput{}, false
	}
	return list[at], true
}

// GivenBy is the config that a revision gave a pool, as the pool's record has it; empty where it cannot tell. A change through the API
// is not of the revision that was applied at that time.
func GivenBy(t v1alpha1.PoolTarget, revision, config string) string {
	if t.Config == config && t.ByAPI() && t.Revision == revision {
		return t.Before
	}
	return config
}
