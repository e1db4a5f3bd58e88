package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Suspend makes the controller stop following the repository of a GitSource. New commits then have no effect, and the
// controller does not restore objects that users change. It replaces the reason and the end of a suspension that is in
// force.
func Suspend(c fleet.Cluster, source string, why HoldReason, now time.Time) (HoldOrder, error) {
	src, err := findSource(c, source)
	if err != nil {
		return HoldOrder{}, err
	}
	suspended := src.Spec.IsSuspended(now)
	was := ""
	if src.Spec.SuspendUntil != nil {
		was = HoldReason{Until: src.Spec.SuspendUntil.Time}.end()
	}
	if suspended && was == why.end() && src.Annotations[v1alpha1.SuspendedByAnnotation] == why.text() {
		return HoldOrder{Notes: []string{"gitsource/" + source + " is suspended already" + fleet.SuspendedBy(src) +
			"; nothing is changed"}}, nil
	}
	var until any // In the patch, null removes the end of an earlier suspension.
	if text := why.end(); text != "" {
		until = text
	}
	did := "gitsource/" + source + " is suspended: new commits have no effect, and the controller restores no " +
		"objects that users change, " + why.ends("bunsen resume gitsource/"+source) + "; the applied revision stays"
	if suspended {
		did += "; before, it was suspended" + fleet.SuspendedBy(src)
	}
	return HoldOrder{Changes: []PoolChange{suspension(source, did, why.text(),
		map[string]any{"suspend": true, "suspendUntil": until})}}, nil
}

// ResumeSource makes the controller follow the repository of a GitSource again.
func ResumeSource(c fleet.Cluster, source string, now time.Time) (HoldOrder, error) {
	src, err := findSource(c, source)
	if err != nil {
		return HoldOrder{}, err
	}
	if !src.Spec.IsSuspended(now) {
		return HoldOrder{Notes: []string{"gitsource/" + source + " is not suspended; nothing is changed"}}, nil
	}
	did := "gitsource/" + source + " is followed again: the controller applies the newest commit, and restores what " +
		"users changed of its objects"
	if who := fleet.SuspendedBy(src); who != "" {
		did += "; it was suspended" + who
	}
	return HoldOrder{Changes: []PoolChange{suspension(source, did, nil,
		map[string]any{"suspend": false, "suspendUntil": nil})}}, nil
}

// suspension returns a change that suspends or resumes a GitSource. The patch removes an annotation whose value is nil.
func suspension(source, did string, annotation any, spec map[string]any) PoolChange {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.SuspendedByAnnotation: annotation}},
		"spec":     spec,
	})
	if err != nil {
		raw = nil // This line is unreachable, because texts and booleans always have a JSON form.
	}
	return PoolChange{Resource: resourceSource, Name: source, Did: did, Patch: raw}
}

func findSource(c fleet.Cluster, name string) (*v1alpha1.GitSource, error) {
	at := slices.IndexFunc(c.Sources, func(s v1alpha1.GitSource) bool { return s.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no GitSource %q: kubectl get gitsources lists those of the cluster", name)
	}
	return &c.Sources[at], nil
}
