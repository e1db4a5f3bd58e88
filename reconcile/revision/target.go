package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// TargetFacts has the rendered config of a pool and its inputs.
type TargetFacts struct {
	// the pool, its rendered config, and the last config with which it was healthy as a whole
	Pool, Config, Healthy string
	// the newest applied one of the sources that own Inputs; zero if there is none
	Commit v1alpha1.CommitInfo
	// who ended the hold of the pool; empty if unknown
	ReleasedBy string
	// Commit did not descend from the one before it. Earlier are the configs of the pool's recorded rollouts.
	Rewritten bool
	Earlier   []string
	// what the pool was rendered from
	Inputs []v1alpha1.TargetInput
	// the applied revision of each existing GitSource that owns inputs, or owned some before
	Sources map[string]string
}

// Left returns an error if MachineConfigs of a GitSource that was deleted during an apply may be a part of a revision.
// They are a whole one if the pool was last rendered from exactly these, by its record was, or, if that does not
// contain the GitSource, by recorded: the digests of the inputs of the config in force. MachineConfigs without a
// GitSource do not count, because users may change them freely, nor do those from which no pool was rendered since the
// deletion.
func Left(was v1alpha1.PoolTarget, f TargetFacts, recorded map[string]string) error {
	now := f.gone()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		before, known := was.Gone[name]
		if s, existed := was.Sources[name]; existed {
			before, known = s.Inputs, true
		}
		if known && before != now[name] || !known && !f.hasOnly(recorded) {
			return fmt.Errorf("GitSource %q was deleted, and its MachineConfigs differ from those in the last config "+
				"of pool %s. They may be half a commit: "+
				"create the GitSource again, or remove the label %s from its MachineConfigs to use them as they are",
				name, f.Pool, v1alpha1.SourceLabel)
		}
	}
	return nil
}

// hasOnly reports whether the inputs of deleted GitSources are exactly the recorded ones.
func (f TargetFacts) hasOnly(recorded map[string]string) bool {
	there := map[string]bool{}
	for _, in := range f.Inputs {
		there[in.Name] = true
		_, exists := f.Sources[in.Source]
		if in.Source != "" && !exists && shorten(recorded[in.Name]) != in.Digest {
			return false
		}
	}
	for name := range recorded {
		if !there[name] {
			return false
		}
	}
	return true
}

// NextTarget returns the record of a pool's target after a render, with the requester of a new config: the commit of a
// source with a new revision, if one of its inputs differs. The cause of any other difference is a change through the
// API, which counts until a user reverses it or the whole pool is healthy with it. New changes have no manager and no
// time yet.
func NextTarget(was v1alpha1.PoolTarget, f TargetFacts) v1alpha1.PoolTarget {
	t := was
	t.Config, t.Held, t.Inputs, t.Sources, t.Gone = f.Config, false, f.outside(), f.sources(), f.gone()
	if was.Config == f.Config {
		return t
	}
	t = f.requested(was, t)
	if t.Cause, t.By = f.cause(was, t), ""; t.Cause == v1alpha1.RolloutCauseRelease {
		t.By = f.ReleasedBy
	}
	return t
}

func (f TargetFacts) cause(was, t v1alpha1.PoolTarget) v1alpha1.RolloutCause {
	switch {
	case was.Held:
		return v1alpha1.RolloutCauseRelease
	case t.ByAPI() || len(t.After) > 0 && t.Revision == lastCommit(was).Revision:
		return v1alpha1.RolloutCauseAPI
	case t.Revision == "":
		return ""
	case f.Rewritten:
		return v1alpha1.RolloutCauseForcePush
	case slices.Contains(f.Earlier, f.Config):
		return v1alpha1.RolloutCauseRevert
	}
	return v1alpha1.RolloutCausePush
}

func (f TargetFacts) requested(was, t v1alpha1.PoolTarget) v1alpha1.PoolTarget {
	newest := v1alpha1.Requester{Revision: f.Commit.Revision, Subject: f.Commit.Subject, Author: f.Commit.Author}
	t.Requester, t.Before, t.Commit, t.InForce = newest, "", v1alpha1.Requester{}, nil
	if was.Config == "" && f.Commit.Revision != "" {
		return t // The target is the pool's first config, with all existing inputs.
	}
	if was.Config != "" && was.Inputs == nil && was.Sources == nil {
		// The controller that rendered the last config recorded no inputs to compare with.
		return t
	}
	changes, commit := f.differences(was, t)
	inForce, after := f.inForce(was, changes, commit)
	t.InForce = inForce
	switch last := lastCommit(was); {
	case commit, len(changes) == 0:
		t.API = unproven(inForce)
		t.AlsoCommit = len(t.API) > 0
	case len(inForce) > 0:
		t = f.requestedByAPI(was, t)
	case last.Revision != "":
		t.Requester = last
	}
	t.After = after
	return t
}

// requestedByAPI makes the changes through the API the requester.
func (f TargetFacts) requestedByAPI(was, t v1alpha1.PoolTarget) v1alpha1.PoolTarget {
	if t.API = unproven(t.InForce); len(t.API) == 0 {
		t.API = plain(t.InForce)
	}
	last := lastCommit(was)
	t.Commit = last
	if t.Before = was.Config; was.ByAPI() && was.Revision == t.Revision {
		t.Before = was.Before
	}
	if f.Healthy != "" && f.Healthy != t.Before && f.Healthy != t.Config && last.Revision != "" {
		t.Unproven = &v1alpha1.CommitRef{Revision: last.Revision, Subject: last.Subject, Author: last.Author}
	}
	return t
}

// lastCommit last requested a config of the pool.
func lastCommit(t v1alpha1.PoolTarget) v1alpha1.Requester {
	if t.ByAPI() {
		return t.Commit
	}
	return v1alpha1.Requester{Revision: t.Revision, Subject: t.Subject, Author: t.Author}
}

// inForce returns the changes through the API that are in the new config and in no commit's, the newest first, and
// those that reversed earlier ones.
func (f TargetFacts) inForce(was v1alpha1.PoolTarget, changes []v1alpha1.ChangeInForce,
	commit bool,
) (inForce []v1alpha1.ChangeInForce, after []v1alpha1.APIChange) {
	var earlier []v1alpha1.ChangeInForce
	for _, c := range was.InForce {
		c.Healthy = c.Healthy || was.Config == f.Healthy
		if !commit || !c.Healthy { // The new commit is based on the changes with which the pool was healthy.
			earlier = append(earlier, c)
		}
	}
	for _, c := range changes {
		at := slices.IndexFunc(earlier, func(o v1alpha1.ChangeInForce) bool {
			return o.Kind == c.Kind && o.Name == c.Name
		})
		if at >= 0 {
			c.Was = earlier[at].Was
			earlier = slices.Delete(earlier, at, at+1)
		}
		if f.isAsBefore(c) {
			after = append(after, c.APIChange)
		} else {
			inForce = append(inForce, c)
		}
	}
	inForce = append(inForce, slices.DeleteFunc(earlier, f.isAsBefore)...)
	return inForce[:min(len(inForce), v1alpha1.MaxAPIChanges)], after[:min(len(after), v1alpha1.MaxAPIChanges)]
}

// isAsBefore reports whether the object has the same state again as before the change.
func (f TargetFacts) isAsBefore(c v1alpha1.ChangeInForce) bool {
	if c.Kind != KindMachineConfig {
		return c.Was == f.Config
	}
	in, _ := inputNamed(f.Inputs, c.Name)
	return in.Digest == c.Was
}

// unproven are those with which the whole pool has never been healthy.
func unproven(changes []v1alpha1.ChangeInForce) []v1alpha1.APIChange {
	return plain(slices.DeleteFunc(slices.Clone(changes), func(c v1alpha1.ChangeInForce) bool { return c.Healthy }))
}

// plain drops the earlier state of the objects.
func plain(changes []v1alpha1.ChangeInForce) []v1alpha1.APIChange {
	var out []v1alpha1.APIChange
	for _, c := range changes {
		out = append(out, c.APIChange)
	}
	return out
}

// outside have no existing GitSource; nil if there are too many to record.
func (f TargetFacts) outside() []v1alpha1.TargetInput {
	var out []v1alpha1.TargetInput
	for _, in := range f.Inputs {
		if _, inGit := f.Sources[in.Source]; !inGit {
			out = append(out, in)
		}
	}
	if len(out) > v1alpha1.MaxTargetInputs {
		return nil
	}
	return out
}

// sources has one digest for each existing GitSource, which is enough: only commits change the inputs of one from which
// a pool is rendered.
func (f TargetFacts) sources() map[string]v1alpha1.TargetSource {
	digests := f.digests()
	out := map[string]v1alpha1.TargetSource{}
	for name, applied := range f.Sources {
		out[name] = v1alpha1.TargetSource{Revision: applied, Inputs: digests[name]}
	}
	return out
}

// gone has a digest for each deleted GitSource; nil if there is none.
func (f TargetFacts) gone() map[string]string {
	var out map[string]string
	for name, digest := range f.digests() {
		if _, exists := f.Sources[name]; exists || name == "" {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = digest
	}
	return out
}

// digests do not depend on the order of the inputs.
func (f TargetFacts) digests() map[string]string {
	lines := map[string][]string{}
	for _, in := range f.Inputs {
		lines[in.Source] = append(lines[in.Source], in.Name+" "+in.Digest+"\n")
	}
	out := map[string]string{}
	for name, of := range lines {
		slices.Sort(of)
		sum := sha256.Sum256([]byte(strings.Join(of, "")))
		out[name] = hex.EncodeToString(sum[:8])
	}
	return out
}

// shortDigest is for a pool's record, in characters.
const shortDigest = 16

func shorten(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(len(digest), shortDigest)]
}

// Inputs returns MachineConfigs in the form of a pool's record, by name.
func (d *Digests) Inputs(configs []*mcfgv1.MachineConfig) ([]v1alpha1.TargetInput, error) {
	var out []v1alpha1.TargetInput
	for _, mc := range configs {
		digest, err := d.Of(mc)
		if err != nil {
			return nil, err
		}
		out = append(out, v1alpha1.TargetInput{
			Name: mc.Name, Digest: shorten(digest),
			Source: mc.Labels[v1alpha1.SourceLabel],
		})
	}
	slices.SortFunc(out, func(a, b v1alpha1.TargetInput) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// differences returns the inputs that changed through the API, and whether a commit changed others.
func (f TargetFacts) differences(was, now v1alpha1.PoolTarget) (changes []v1alpha1.ChangeInForce, commit bool) {
	anyMoved, reselected := false, false
	for name, gave := range now.Sources {
		moved := gave.Revision != "" && gave.Revision != was.Sources[name].Revision
		differs := gave.Inputs != was.Sources[name].Inputs
		anyMoved = anyMoved || moved
		commit = commit || moved && differs
		reselected = reselected || !moved && differs
	}
	changes = f.apiChanges(was, now)
	if reselected && anyMoved { // A commit of another source has changed the pool's selector.
		commit = true
	} else if reselected {
		changes = append(changes, v1alpha1.ChangeInForce{APIChange: v1alpha1.APIChange{
			Kind: KindMachineConfigPool,
			Name: f.Pool, Action: v1alpha1.APIChanged,
		}, Was: was.Config})
	}
	slices.SortFunc(changes, func(a, b v1alpha1.ChangeInForce) int {
		return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name)
	})
	return changes, commit
}

// apiChanges compares the inputs without a GitSource. Those of a deleted one have a single digest in the record, so
// they cannot be compared.
func (f TargetFacts) apiChanges(was, now v1alpha1.PoolTarget) []v1alpha1.ChangeInForce {
	var out []v1alpha1.ChangeInForce
	add := func(name, before string, action v1alpha1.APIAction) {
		out = append(out, v1alpha1.ChangeInForce{APIChange: v1alpha1.APIChange{
			Kind: KindMachineConfig, Name: name,
			Action: action,
		}, Was: before})
	}
	for _, in := range now.Inputs {
		old, had := inputNamed(was.Inputs, in.Name)
		_, wasInGit := was.Sources[in.Source]
		switch {
		case had && old.Digest != in.Digest:
			add(in.Name, old.Digest, v1alpha1.APIChanged)
		case !had && !wasInGit:
			add(in.Name, "", v1alpha1.APICreated)
		}
	}
	for _, old := range was.Inputs {
		if _, has := inputNamed(f.Inputs, old.Name); !has && now.Sources[old.Source].Revision == "" {
			add(old.Name, old.Digest, v1alpha1.APIDeleted)
		}
	}
	return out
}

func inputNamed(list []v1alpha1.TargetInput, name string) (v1alpha1.TargetInput, bool) {
	at := slices.IndexFunc(list, func(in v1alpha1.TargetInput) bool { return in.Name == name })
	if at < 0 {
		return v1alpha1.TargetInput{}, false
	}
	return list[at], true
}

// GivenBy returns the config that a revision produced for a pool, by its record; empty if that does not name the
// revision. One that a change through the API produced does not count.
func GivenBy(t v1alpha1.PoolTarget, revision, config string) string {
	if t.Config == config && t.ByAPI() && t.Revision == revision {
		return t.Before
	}
	return config
}
