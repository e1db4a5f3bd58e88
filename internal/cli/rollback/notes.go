package rollback

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// notes returns texts for the user. These texts say what the cluster runs now, and what else prevents the nodes from
// returning to the earlier config.
func notes(f *fleet.Fleet, v *fleet.Pool, c Choice) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	pool := "pool/" + c.Pool
	if text := unapplied(c.Source); text != "" {
		out = append(out, text)
	}
	if held := fleet.HeldBy(v.Object); held != "" {
		add("%s has a hold%s: after the merge, bunsen release %[1]s lets the revert reach its nodes", pool, held)
	} else if now := v.Object.Spec.Configuration.Name; now != c.From.Config && c.From.Config != "" && now != "" {
		add("%s should run %s, and not the config of %s", pool, fleet.ShortRendered(now), c.From.Text())
	}
	if v.Object.Spec.Paused {
		add("%s is paused%s: the revert reaches its nodes only after bunsen resume %[1]s", pool,
			fleet.PausedBy(v.Object))
	}
	if c.Source.Spec.IsSuspended(f.Now) {
		add("GitSource %s is suspended%s: it reads no commit until bunsen resume gitsource/%[1]s", c.Source.Name,
			fleet.SuspendedBy(c.Source))
	}
	if changes := f.Config(v.Object.Spec.Configuration.Name).API; len(changes) > 0 {
		add("a commit does not undo changes through the API: %s; bunsen why %s prints the commands",
			fleet.APINames(changes), pool)
	}
	if c.To.Config != "" && isRead(f) && !fleet.HasConfig(f, c.To.Config) {
		add("%s is no longer on the cluster; the controller renders it again, with the same name",
			fleet.ShortRendered(c.To.Config))
	}
	if step := RefStep(c.Source.Spec.Ref); step != "" {
		add("GitSource %s %s", c.Source.Name, step)
	}
	return out
}

// unapplied returns a text that says that a source has not applied the newest commit that it has seen, or "".
func unapplied(src *v1alpha1.GitSource) string {
	s := &src.Status
	if s.ObservedRevision == "" || s.ObservedRevision == s.AppliedRevision {
		return ""
	}
	why := ""
	if ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ReadyCondition); ready != nil &&
		ready.Reason != v1alpha1.ReasonSucceeded {
		why = ": " + ready.Reason
	}
	return fmt.Sprintf("GitSource %s has seen %s, which it has not applied%s; bunsen why gitsource/%[1]s", src.Name,
		fleet.ShortRevision(s.ObservedRevision), why)
}

// isRead reports whether the user may read the rendered configs. Without this right, the command knows only some names
// of rendered configs.
func isRead(f *fleet.Fleet) bool {
	return slices.ContainsFunc(f.Rendered, func(r fleet.RenderedRow) bool { return !r.Created.IsZero() })
}

// RefStep returns a text that says what a user does after the merge, if the source does not follow a branch. RefStep
// returns "" for a source that follows a branch.
func RefStep(ref v1alpha1.GitRef) string {
	switch {
	case ref.Commit != "":
		return "is pinned to a commit: after the merge, set spec.ref.commit to the merged commit"
	case ref.Name != "":
		return "follows " + ref.Name + ": after the merge, move that ref to the merged commit"
	case ref.SemVer != "":
		return "follows the tags " + ref.SemVer + ": after the merge, push a higher tag on the merged commit"
	case ref.Tag != "":
		return "follows the tag " + ref.Tag + ": after the merge, push a new tag on the merged commit, and set " +
			"spec.ref.tag to it"
	}
	return ""
}
