package kube

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/source"
)

// candidate is a revision that a source applied, and whose rendered config is on the cluster.
type candidate struct {
	source, config string
	commit         v1alpha1.CommitInfo
}

// String describes the candidate for users.
func (c candidate) String() string {
	return strings.TrimSpace(fleet.ShortRevision(c.commit.Revision)+" "+source.Quote(c.commit.Subject)) + ", " +
		fleet.ShortRendered(c.config)
}

// Hold makes the rendered config that a revision gave a pool the pool's config, until a user releases the pool or until
// the end in why. It replaces an earlier hold: the nodes go to the new revision directly, and never to the newest
// commit on the way. The parameter at is the hash of the commit, with at least 7 digits, also in the form
// `main@sha1:<hash>`. A revision whose config is not on the cluster is refused with a list of those that are.
func Hold(c fleet.Cluster, pool, at string, why HoldReason) (HoldOrder, error) {
	i := slices.IndexFunc(c.Pools, func(p mcfgv1.MachineConfigPool) bool { return p.Name == pool })
	if i < 0 {
		return HoldOrder{}, fleet.NoPool(pool)
	}
	p := &c.Pools[i]
	to, err := findRevision(c, p, at)
	if err != nil {
		return HoldOrder{}, err
	}
	want := map[string]string{
		v1alpha1.HoldAnnotation: to.config, v1alpha1.HeldRevisionAnnotation: to.commit.Revision,
		v1alpha1.HeldByAnnotation: why.text(), v1alpha1.HeldUntilAnnotation: why.end(),
		v1alpha1.SteeredByAnnotation: "",
	}
	o := HoldOrder{}
	if p.Spec.Paused {
		o.Notes = append(o.Notes, "the pool is paused"+fleet.PausedBy(p)+": the controller assigns no config until "+
			"bunsen resume pool/"+pool)
	}
	held := fleet.HeldBy(p)
	if sameAnnotations(p.Annotations, want) {
		o.Notes = slices.Insert(o.Notes, 0, "pool/"+pool+" has this hold already,"+held+"; nothing is changed")
		return o, nil
	}
	does := "its nodes return to it as the rollout allows"
	if p.Spec.Configuration.Name == to.config {
		does = "it is the pool's config now"
	}
	did := "pool/" + pool + " has a hold at " + to.String() + ": " + does + ", and newer commits do not reach the " +
		"pool, " + why.ends("bunsen release pool/"+pool)
	if held != "" {
		did += "; before, it was held" + held
	}
	o.Changes = []PoolChange{{
		Resource: resourcePool, Name: pool, Patch: patch(annotationPatch(p.Annotations, want), nil), Did: did,
	}}
	return o, nil
}

// Release lets a held pool follow its sources again. The parameter who is the name of the user, for the history.
func Release(c fleet.Cluster, pool, who string) (HoldOrder, error) {
	i := slices.IndexFunc(c.Pools, func(p mcfgv1.MachineConfigPool) bool { return p.Name == pool })
	if i < 0 {
		return HoldOrder{}, fleet.NoPool(pool)
	}
	p := &c.Pools[i]
	held := fleet.HeldBy(p)
	if held == "" {
		return HoldOrder{Notes: []string{"pool/" + pool + " has no hold; nothing is changed"}}, nil
	}
	annotations := map[string]*string{
		v1alpha1.HoldAnnotation: nil, v1alpha1.HeldRevisionAnnotation: nil,
		v1alpha1.HeldByAnnotation: nil, v1alpha1.HeldUntilAnnotation: nil,
		v1alpha1.SteeredByAnnotation: requestedBy(p.Annotations[v1alpha1.HoldAnnotation], who),
	}
	return HoldOrder{Changes: []PoolChange{{
		Resource: resourcePool, Name: pool, Patch: patch(annotations, nil),
		Did: "pool/" + pool + " follows its sources again: the controller renders the newest revision, and rolls it " +
			"out; it had a hold" + held,
	}}}, nil
}

func findRevision(c fleet.Cluster, p *mcfgv1.MachineConfigPool, at string) (candidate, error) {
	all := candidates(c, p)
	hash, ok := source.HashIn(at)
	if !ok {
		return candidate{}, fmt.Errorf("--at %q: want the hash of a commit, in lower case and with at least %d "+
			"digits; %s", at, source.ShortestHash, listed(p.Name, all))
	}
	var found []candidate
	for _, one := range all {
		if is, err := source.ParseRevision(one.commit.Revision); err == nil && strings.HasPrefix(is.Hash, hash) &&
			(hash == at || strings.HasPrefix(one.commit.Revision, at)) {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return candidate{}, fmt.Errorf("--at %q: no commit with this hash gave pool %s a config that is on the "+
			"cluster; %s", at, p.Name, listed(p.Name, all))
	}
	for _, other := range found[1:] {
		if other.config != found[0].config {
			return candidate{}, fmt.Errorf("--at %q: several commits have this hash: write more digits, or the whole "+
				"revision; %s", at, listed(p.Name, found))
		}
	}
	return found[0], nil
}

// candidates returns the revisions in the histories of the GitSources, newest first in each, and then those of the
// pool's recorded rollouts, which a GitSource that was created again does not know. None is there twice.
func candidates(c fleet.Cluster, p *mcfgv1.MachineConfigPool) (out []candidate) {
	sources := map[string]string{} // of the pool's configs on the cluster
	for i := range c.Rendered {
		if r := &c.Rendered[i]; r.Pool == p.Name {
			sources[r.Name] = r.Source
		}
	}
	known := map[[2]string]bool{}
	add := func(from, config string, commit v1alpha1.CommitInfo) {
		of, is := sources[config]
		if key := [2]string{config, commit.Revision}; is && !known[key] {
			known[key] = true
			out = append(out, candidate{cmp.Or(from, of), config, commit})
		}
	}
	for i := range c.Sources {
		src := &c.Sources[i]
		for _, e := range fleet.AppliedHistory(src) {
			add(src.Name, e.Pools[p.Name], e.CommitInfo)
		}
	}
	past, err := v1alpha1.EarlierRollouts(p.Annotations)
	if err != nil {
		return out // The controller reports a history that cannot be read.
	}
	for _, r := range past {
		if r.Revision != "" {
			add("", r.Config, v1alpha1.CommitInfo{Revision: r.Revision, Subject: r.Subject, Author: r.Author})
		}
	}
	return out
}

// HoldOffer is a commit at which Hold can hold a pool.
type HoldOffer struct {
	// Revision is `main@sha1:<hash>`, which Hold accepts.
	Revision string
	// Text describes the commit and its config on one line.
	Text string
	// IsNow: the pool should run this config now.
	IsNow bool
}

// HoldOffers returns the commits at which a pool can be held, newest first: of several in a row with the same config
// for the pool, the one that brought it.
func HoldOffers(c fleet.Cluster, pool string) (out []HoldOffer) {
	last := ""
	for p, one := range offers(c, pool) {
		if one.config == last {
			out = out[:len(out)-1]
		}
		out = append(out, HoldOffer{one.commit.Revision, one.String(), p.Spec.Configuration.Name == one.config})
		last = one.config
	}
	return out
}

// CanHold reports whether there is a commit at which a pool can be held. Pages ask it each time they are drawn.
func CanHold(c fleet.Cluster, pool string) bool {
	for range offers(c, pool) {
		return true
	}
	return false
}

// offers are the pool, and each candidate that its revision names: not one whose revision is damaged or has two
// configs.
func offers(c fleet.Cluster, pool string) iter.Seq2[*mcfgv1.MachineConfigPool, candidate] {
	return func(yield func(*mcfgv1.MachineConfigPool, candidate) bool) {
		i := slices.IndexFunc(c.Pools, func(p mcfgv1.MachineConfigPool) bool { return p.Name == pool })
		if i < 0 {
			return
		}
		all, configs := candidates(c, &c.Pools[i]), map[string]int{}
		for _, one := range all {
			configs[one.commit.Revision]++
		}
		for _, one := range all {
			_, err := source.ParseRevision(one.commit.Revision)
			_, ok := source.HashIn(one.commit.Revision)
			if err == nil && ok && configs[one.commit.Revision] == 1 && !yield(&c.Pools[i], one) {
				return
			}
		}
	}
}

func listed(pool string, all []candidate) string {
	if len(all) == 0 {
		return "there is none for pool " + pool + " on the cluster"
	}
	lines := make([]string, len(all))
	for i, one := range all {
		lines[i] = fmt.Sprintf("  %s   %s", cmp.Or(one.commit.Revision, "unknown"), one)
		if one.source != "" {
			lines[i] += ", GitSource " + one.source
		}
	}
	return "on the cluster are:\n" + strings.Join(lines, "\n")
}

// CheckRevision rejects an empty revision before a command reads the cluster.
func CheckRevision(at string) error {
	if at == "" {
		return errors.New("hold needs the hash of a commit, such as one of `bunsen history`: --at REVISION")
	}
	return nil
}
