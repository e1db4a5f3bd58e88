package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// patientSource is for an error that the controller retries, before a user has to check the source.
const patientSource = 10 * time.Minute

// SourceReason says why the newest commit of a source is not on the cluster; false if nothing prevents that. Its
// commands are for a pool.
func SourceReason(f *fleet.Fleet, v *fleet.Pool, src *v1alpha1.GitSource) (Answer, bool) {
	c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition)
	switch {
	case src.Spec.IsSuspended(f.Now):
		return Answer{
			Outcome: Fine, Cause: fleet.CauseSource, Reason: "GitSource " + src.Name + " is suspended" +
				fleet.SuspendedBy(src) + ", so new commits have no effect",
			Do: []string{"bunsen resume gitsource/" + src.Name + "   # applies the newest commit, and restores what " +
				"users changed of its objects"},
		}, true
	case c == nil || c.Status != metav1.ConditionFalse:
		return Answer{}, false
	}
	a := Answer{
		Outcome: Progressing, Cause: fleet.CauseSource, predicate: sourceFailure(src, c),
		Do: sourceActions(f, v, src), Problems: sourceProblems(src, c),
	}
	a.Reason = "GitSource " + src.Name + " " + a.predicate
	if meta.IsStatusConditionTrue(src.Status.Conditions, v1alpha1.StalledCondition) ||
		f.Now.Sub(c.LastTransitionTime.Time) > patientSource {
		a.Outcome = Blocked
	}
	return a, true
}

// mostProblems is for a refused commit: whoever mends it wants to see all at once.
const mostProblems = 10

// sourceProblems returns the first problems of a source, or nil for a single one.
func sourceProblems(src *v1alpha1.GitSource, c *metav1.Condition) []string {
	all, more := fleet.SourceProblems(src, c.Message)
	if len(all)+more < 2 {
		return nil
	}
	out := slices.Clone(all[:min(len(all), mostProblems)])
	if more += len(all) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more: kubectl describe gitsource %s", more, src.Name))
	}
	return out
}

// sourceFailure says of a source what failed, when the controller retries, and which commit stays applied.
func sourceFailure(src *v1alpha1.GitSource, c *metav1.Condition) string {
	stays := "nothing is applied yet"
	if h := fleet.HashOf(src.Status.AppliedRevision); h != "" {
		stays = h + " stays in force"
	}
	every := fleet.Took(cmp.Or(src.Spec.Interval.Duration, time.Minute))
	cannot := ""
	switch c.Reason {
	case v1alpha1.ReasonUnreachable:
		cannot = "cannot reach its repository, and tries again by itself at least every " + every + "; " + stays
	case v1alpha1.ReasonAuthentication:
		cannot = "has no access to its repository, and tries again by itself at least every " + every + "; " + stays
	case v1alpha1.ReasonRefNotFound:
		cannot = "does not find its ref in the repository, and looks again every " + every + "; " + stays
	case v1alpha1.ReasonInvalidSpec:
		cannot = "has a spec that cannot be used; " + stays
	case v1alpha1.ReasonApplyFailed, v1alpha1.ReasonPoolMissing, v1alpha1.ReasonConflict:
		cannot = "cannot apply " + observedCommit(src) + ", and tries again by itself: " +
			cmp.Or(partlyApplied(src), "nothing of it is applied") + "; " + stays
	default:
		if part := partlyApplied(src); part != "" {
			cannot = "cannot use " + observedCommit(src) + ": " + part + "; " + stays
		} else {
			cannot = "cannot use " + observedCommit(src) + ", so " + stays
		}
	}
	problem, _ := fleet.SourceProblem(src, c.Message)
	return cannot + ": " + problem
}

// partlyApplied says how far the newest commit is on the cluster; "" for not at all.
func partlyApplied(src *v1alpha1.GitSource) string {
	switch {
	case src.Status.Applying != nil:
		return "parts of it may be on the cluster until the controller restores the earlier revision"
	case src.Status.ObservedRevision == src.Status.AppliedRevision && src.Status.AppliedRevision != "":
		return "the cluster differs from it"
	}
	return ""
}

// observedCommit names the newest commit of a source, as far as its subject and author are known.
func observedCommit(src *v1alpha1.GitSource) string {
	hash := fleet.HashOf(src.Status.ObservedRevision)
	if hash == "" {
		return "its newest commit"
	}
	text := "commit " + hash
	for _, h := range src.Status.History {
		if h.Revision != src.Status.ObservedRevision {
			continue
		}
		if h.Subject != "" {
			text += " " + source.Quote(h.Subject)
		}
		if h.Author != "" {
			text += " by " + fleet.Person(h.Author)
		}
		break
	}
	return text
}

// createSource creates a deleted GitSource again from the pools' records: the wanted one, or the first that a pool
// names.
func createSource(f *fleet.Fleet, wanted string) string {
	name, spec, comment := cmp.Or(wanted, "config"), json.RawMessage(`{"url":"URL"}`), "   # write the repository's "+
		"URL for URL: docs/sources.md"
	for i := range f.Rendered { // The newest config of its commits has the repository, and no more of its spec.
		r := &f.Rendered[i]
		at, err := source.ParseRevision(r.Revision)
		if wanted == "" || r.Source != wanted || r.Repository == "" || err != nil {
			continue
		}
		ref := map[string]string{"branch": at.Ref}
		if known, err := json.Marshal(map[string]any{"url": r.Repository, "ref": ref}); err == nil && at.Ref != "" {
			spec, comment = known, "   # its other fields, such as secretRef, are not known: docs/sources-reference.md"
			break
		}
	}
	for i := range f.Pools {
		of, recorded := f.Pools[i].Annotations[v1alpha1.SourceAnnotation],
			f.Pools[i].Annotations[v1alpha1.SourceSpecAnnotation]
		// There is no name, or the name is unsafe in a command.
		if len(validation.IsDNS1123Subdomain(of)) > 0 || wanted != "" && of != wanted {
			continue
		}
		if name = of; json.Valid([]byte(recorded)) {
			spec, comment = json.RawMessage(recorded), "   # creates GitSource "+name+" as it was"
			break
		}
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "GitSource", "metadata": map[string]any{"name": name},
		"spec": spec,
	})
	if err != nil {
		return "" // There is no error, because texts can always be encoded.
	}
	return "echo " + fleet.ShellWord(string(manifest)) + " | kubectl apply -f -" + comment
}

// fixWithoutSource is for a pool with a faulty config if no GitSource exists, so that pushes have no effect, and no
// range of commits to revert is known. A GitSource that is created again replaces later manual edits.
func fixWithoutSource(f *fleet.Fleet, v *fleet.Pool) []string {
	const correct = "   # pool %s is rendered from these; correct the one at fault with kubectl edit"
	if f.SourceOf(v, v.TargetConfig()) == "" {
		return []string{fmt.Sprintf("kubectl get machineconfigs -l '"+inputSelector(v)+"'"+correct, v.Object.Name)}
	}
	return []string{
		"push a commit that fixes pool " + v.Object.Name, createSource(f, ""),
		fleet.Alternative("pool "+v.Object.Name+" is to do without git", "kubectl label machineconfigs -l '"+
			inputSelector(v)+","+v1alpha1.SourceLabel+"' "+v1alpha1.SourceLabel+
			"-   # then correct the MachineConfig at fault with kubectl edit"),
	}
}

// inputSelector selects the MachineConfigs that a pool is rendered from, without rendered configs.
func inputSelector(v *fleet.Pool) string {
	if s := v.Object.Spec.MachineConfigSelector; s != nil {
		if text := metav1.FormatLabelSelector(s); !strings.HasPrefix(text, "<") {
			return text
		}
	}
	return v1alpha1.RoleLabel + "=" + v.Object.Name
}

// sourceActions are for a GitSource that is not Ready.
func sourceActions(f *fleet.Fleet, v *fleet.Pool, src *v1alpha1.GitSource) []string {
	c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition)
	if c == nil {
		return nil
	}
	if r, ok := badCommits(f, v, src, blamedConfig(f, v)); ok && isUnusable(src) {
		do := append(r.commands(v), "kubectl describe gitsource "+src.Name+"   # every problem, if you push a fix")
		if c.Reason == v1alpha1.ReasonApplyFailed || c.Reason == v1alpha1.ReasonPoolMissing ||
			c.Reason == v1alpha1.ReasonConflict {
			do = append(do, fleet.Alternative("the cause is gone from the cluster", reconcileNow(src)))
		}
		return do
	}
	return correctSource(src, c.Reason)
}

// correctSource is for a GitSource that is not Ready, if no range of commits to revert is known.
func correctSource(src *v1alpha1.GitSource, reason string) []string {
	edit, describe := "kubectl edit gitsource "+src.Name, "kubectl describe gitsource "+src.Name
	switch reason {
	case v1alpha1.ReasonTranspileFailed, v1alpha1.ReasonInvalidTree, v1alpha1.ReasonPoolMissing,
		v1alpha1.ReasonConflict:
		return []string{describe, "push a commit that fixes it"}
	case v1alpha1.ReasonRepositoryDamaged:
		return []string{
			"git fsck --full   # in the repository, on its server; restore it from a backup, or copy " +
				"objects/ of a clone that has what is missing: a push sends nothing that the branch has already",
			describe,
		}
	case v1alpha1.ReasonUnreachable:
		return []string{describe, fleet.Alternative("spec.url or spec.secretRef is wrong", edit)}
	case v1alpha1.ReasonAuthentication:
		if ref := src.Spec.SecretRef; ref != nil {
			return []string{
				describe, "change Secret " + ref.Name + " in namespace bunsen-sources, or create it" +
					"   # its keys: docs/sources-credentials.md",
				fleet.Alternative("the controller is to look now", reconcileNow(src)),
			}
		}
		return []string{describe, edit + "   # spec.secretRef"}
	case v1alpha1.ReasonRefNotFound:
		return []string{edit + "   # spec.ref; or push that ref"}
	case v1alpha1.ReasonPathNotFound:
		return []string{edit + "   # spec.path; or push a commit that has the folder"}
	case v1alpha1.ReasonHistoryRewritten:
		return []string{
			fmt.Sprintf("push a branch that contains %s", fleet.HashOf(src.Status.AppliedRevision)),
			fleet.Alternative("the rewrite was intended", accept(src)),
		}
	case v1alpha1.ReasonSignature:
		do := []string{
			describe, "push a commit or tag that is signed with an allowed key",
			fleet.Alternative("the key is missing", edit+"   # spec.verify"),
		}
		if v := src.Spec.Verify; v != nil && v.Mode == v1alpha1.VerifyRange {
			do = append(do, fleet.Alternative("you accept the commits before the newest one without signatures",
				accept(src)))
		}
		return do
	case v1alpha1.ReasonInvalidSpec:
		return []string{edit}
	}
	return []string{describe}
}

// accept lets the controller apply the newest commit without a comparison with the applied one.
func accept(src *v1alpha1.GitSource) string {
	at, err := source.ParseRevision(src.Status.ObservedRevision)
	if err != nil {
		return "kubectl describe gitsource " + src.Name
	}
	return fmt.Sprintf("kubectl annotate gitsource %s %s=%s --overwrite", src.Name, v1alpha1.AcceptAnnotation, at.Hash)
}

// reconcileNow lets the controller read a repository at once.
func reconcileNow(src *v1alpha1.GitSource) string {
	return fmt.Sprintf(`kubectl annotate gitsource %s bunsen.dev/reconcile="$(date +%%s)" --overwrite`, src.Name)
}
