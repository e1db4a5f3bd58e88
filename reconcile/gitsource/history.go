package gitsource

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// appliedBefore returns the hash of the applied commit, with which the controller compares a new commit. The hash is
// empty if no commit is applied, if the spec named another repository or ref when that commit was applied, or if a user
// accepted the new commit.
func appliedBefore(src *v1alpha1.GitSource, picked source.Picked) string {
	applied, err := source.ParseRevision(src.Status.AppliedRevision)
	switch {
	case err != nil, src.Annotations[v1alpha1.AcceptAnnotation] == picked.Hash,
		src.Status.AppliedFrom != followedRef(src.Spec):
		return ""
	}
	return applied.Hash
}

// followedRef names the repository and the ref of a spec, without credentials.
func followedRef(spec v1alpha1.GitSourceSpec) string {
	ref := "default branch"
	switch want := spec.Ref; {
	case want.Commit != "":
		ref = "commit " + want.Commit
	case want.Name != "":
		ref = "ref " + want.Name
	case want.SemVer != "":
		ref = "semver " + want.SemVer
	case want.Tag != "":
		ref = "tag " + want.Tag
	case want.Branch != "":
		ref = "branch " + want.Branch
	}
	return source.Redact(spec.URL) + " " + ref
}

// doubt is a finding about a new commit, as two texts. Both are empty if there is nothing to say.
type doubt struct {
	// refused is the text while the earlier commit stays applied.
	refused string
	// applied is the text once the new commit has replaced the earlier one. The status shows it until the next commit
	// is applied, so it must be true all that time.
	applied string
}

// history is the result of comparing a new commit with the applied commit.
type history struct {
	// rewritten says that the new commit does not descend from the applied commit. moved says that the tag named
	// another commit before. unknown says that the repository did not send the history.
	rewritten, moved, unknown doubt
}

// compare compares a new commit with the applied commit.
func compare(src *v1alpha1.GitSource, picked source.Picked, descent source.Descent) history {
	var h history
	applied, err := source.ParseRevision(src.Status.AppliedRevision)
	if err != nil || picked.Applied == "" || picked.Applied == picked.Hash {
		return h
	}
	if isTag := strings.HasPrefix(picked.FullName, "refs/tags/"); isTag {
		h.moved = movedTag(src, picked)
		order, versions := source.CompareVersions(picked.Ref, applied.Ref)
		switch {
		case !versions || picked.Ref == applied.Ref:
		case order < 0:
			h.rewritten = comparedWith(applied, picked.Revision().Short()+" is a lower version than ",
				": a user deleted the tag of the higher one")
			return h
		case order > 0 &&
			signsTag(src.Spec.Verify): // The version is certain, because the tag's signature covers its name.
			return h
		}
	}
	switch {
	case source.IsArtifact(src.Spec):
	case descent == source.Rewritten:
		h.rewritten = comparedWith(applied, picked.Revision().Short()+" does not descend from ",
			": the history of the branch was rewritten")
	case descent == source.Unknown:
		const why = ", so a push may have rewritten it. Set uploadpack.allowFilter to true on the git server"
		h.unknown = doubt{
			refused: fmt.Sprintf("the repository does not send the history between %s, which is applied, and %s%s",
				applied.Short(), picked.Revision().Short(), why),
			applied: fmt.Sprintf("the repository does not send the history between %s and %s, which replaced it%s",
				applied.Short(), picked.Revision().Short(), why),
		}
	}
	return h
}

// comparedWith returns a doubt with the earlier commit between two parts of a sentence about the new commit.
func comparedWith(earlier source.Revision, before, after string) doubt {
	return doubt{
		refused: before + earlier.Short() + ", which is applied" + after,
		applied: before + earlier.Short() + ", which it replaced" + after,
	}
}

// movedTag returns a doubt if the tag named another commit when the controller last applied the tag.
func movedTag(src *v1alpha1.GitSource, picked source.Picked) doubt {
	before := hashBefore(src, picked.Ref)
	if before == "" || before == picked.Hash {
		return doubt{}
	}
	text := fmt.Sprintf("the tag %s moved from commit %.8s to commit %.8s", picked.Ref, before, picked.Hash)
	return doubt{text, text}
}

func signsTag(v *v1alpha1.Verification) bool {
	return v != nil && (v.Mode == v1alpha1.VerifyTag || v.Mode == v1alpha1.VerifyTagAndHead)
}

// hashBefore returns the commit that the controller last applied for a ref; empty if there is none.
func hashBefore(src *v1alpha1.GitSource, ref string) string {
	revisions := []string{src.Status.AppliedRevision}
	for _, h := range src.Status.History {
		if h.Refused == nil {
			revisions = append(revisions, h.Revision)
		}
	}
	for _, text := range revisions {
		if r, err := source.ParseRevision(text); err == nil && r.Ref == ref {
			return r.Hash
		}
	}
	return ""
}

// event returns the text of the event about an applied commit; empty if the commit needs no event.
func (h history) event() string {
	return strings.Join(slices.DeleteFunc([]string{h.rewritten.applied, h.moved.applied}, func(s string) bool {
		return s == ""
	}), "; ")
}

// decide applies spec.historyPolicy. decide returns warnings about a commit that may be applied, or an error, after
// which the last commit stays applied. If signatures are required, even the policy Warn refuses a rewritten history,
// because a user without a key can push an earlier signed commit.
func (h history) decide(spec v1alpha1.GitSourceSpec, hash string) (warnings []string, err error) {
	if spec.HistoryPolicy == v1alpha1.HistoryAllow {
		return nil, nil
	}
	isBlocked := spec.HistoryPolicy == v1alpha1.HistoryBlock
	var refused []string
	for _, found := range []struct {
		doubt
		refuse bool
		warn   bool
	}{
		{h.rewritten, isBlocked || spec.Verify != nil, true},
		{h.moved, isBlocked, true},
		{h.unknown, isBlocked, spec.Verify != nil},
	} {
		switch {
		case found.doubt == doubt{}:
		case found.refuse:
			refused = append(refused, found.refused)
		case found.warn:
			warnings = append(warnings, found.applied)
		}
	}
	if len(refused) == 0 {
		return warnings, nil
	}
	return nil, fault.NewStalled(v1alpha1.ReasonHistoryRewritten, errors.New(strings.Join(refused, "; ")+
		". Push a commit that descends from the applied one. If this commit is intended, set the annotation "+
		v1alpha1.AcceptAnnotation+"="+hash))
}
