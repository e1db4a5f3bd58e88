package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// patientSource is for how long a source may fail with what the controller tries again, before a person has to look.
const patientSource = 10 * time.Minute

// sourceAnswers say why the newest commit is not on the cluster, where it is not.
func (f reasons) sourceAnswers(v *poolView) []Answer {
	var out []Answer
	of := v.object.Annotations[v1alpha1.SourceAnnotation]
	for i := range f.Sources {
		src := &f.Sources[i]
		if of != "" && of != src.Name {
			continue
		}
		if a, is := sourceAnswer(f.fleet, v, src); is {
			out = append(out, a)
		}
	}
	return out
}

// sourceAnswer says why the newest commit of a source is not on the cluster; false where nothing is in its way. The advice is for a pool.
func sourceAnswer(f *fleet, v *poolView, src *v1alpha1.GitSource) (Answer, bool) {
	c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition)
	switch {
	case src.Spec.Suspend:
		return Answer{
			Outcome: Fine, Cause: CauseSource, Reason: "GitSource " + src.Name + " is suspended, so new commits have no effect",
			Do: []string{fmt.Sprintf(`kubectl patch gitsource %s --type merge -p '{"spec":{"suspend":false}}'   # applies the newest commit; what users changed of its objects is put back`, src.Name)},
		}, true
	case c == nil || c.Status != metav1.ConditionFalse:
		return Answer{}, false
	}
	a := Answer{Outcome: Progressing, Cause: CauseSource, Reason: sourceFailure(src, c), Do: sourceActions(f, v, src)}
	if meta.IsStatusConditionTrue(src.Status.Conditions, v1alpha1.StalledCondition) || f.now.Sub(c.LastTransitionTime.Time) > patientSource {
		a.Outcome = Blocked
	}
	return a, true
}

// sourceFailure says what a source cannot do, when the controller tries it again, and what stays in force.
func sourceFailure(src *v1alpha1.GitSource, c *metav1.Condition) string {
	stays := "nothing is applied yet"
	if h := hashOf(src.Status.AppliedRevision); h != "" {
		stays = h + " stays in force"
	}
	every := took(cmp.Or(src.Spec.Interval.Duration, time.Minute))
	cannot := ""
	switch c.Reason {
	case v1alpha1.ReasonUnreachable:
		cannot = "cannot reach its repository, and tries again by itself at least every " + every
	case v1alpha1.ReasonAuthentication:
		cannot = "has no access to its repository, and tries again by itself at least every " + every
	case v1alpha1.ReasonRefNotFound:
		cannot = "does not find its ref in the repository, and looks again every " + every
	case v1alpha1.ReasonInvalidSpec:
		cannot = "has a spec that cannot be used"
	case v1alpha1.ReasonApplyFailed, v1alpha1.ReasonPoolMissing, v1alpha1.ReasonConflict:
		cannot = "cannot apply " + observedCommit(src, c) + ", and tries again by itself: " + nothingApplied(src)
	default:
		cannot = "cannot use " + observedCommit(src, c) + ": " + nothingApplied(src)
	}
	return fmt.Sprintf("GitSource %s %s; %s: %s: %s", src.Name, cannot, stays, c.Reason, parseRefusal(c.Message).problem)
}

// nothingApplied says whether any of the newest commit is on the cluster.
func nothingApplied(src *v1alpha1.GitSource) string {
	switch {
	case src.Status.Applying != nil:
		return "some of it may be on the cluster until it is taken back"
	case src.Status.ObservedRevision == src.Status.AppliedRevision && src.Status.AppliedRevision != "":
		return "the cluster differs from it"
	}
	return "nothing of it is applied"
}

// observedCommit names the newest commit of a source, with its subject and author as far as they are known.
func observedCommit(src *v1alpha1.GitSource, c *metav1.Condition) string {
	hash := hashOf(src.Status.ObservedRevision)
	if hash == "" {
		return "its newest commit"
	}
	r := refusalOf(c)
	if !strings.HasSuffix(r.revision, hash) {
		r = refusal{}
	}
	for _, h := range src.Status.History {
		if h.Revision == src.Status.ObservedRevision {
			r.subject, r.author = h.Subject, h.Author
			break
		}
	}
	text := "commit " + hash
	if r.subject != "" {
		text += " " + source.Quote(r.subject)
	}
	if r.author != "" {
		text += " by " + r.author
	}
	return text
}

// sourceActions are the commands for a GitSource that is not Ready, by the reason.
func sourceActions(f *fleet, v *poolView, src *v1alpha1.GitSource) []string {
	c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition)
	if c == nil {
		return nil
	}
	edit, describe := "kubectl edit gitsource "+src.Name, "kubectl describe gitsource "+src.Name
	look := fmt.Sprintf(`kubectl annotate gitsource %s bunsen.dev/reconcile="$(date +%%s)" --overwrite`, src.Name)
	if r, ok := badCommits(f, v, src, blamedConfig(f, v)); ok && isUnusable(src) {
		do := append(r.commands(v), describe+"   # every problem, if you push a fix")
		if c.Reason == v1alpha1.ReasonApplyFailed || c.Reason == v1alpha1.ReasonPoolMissing || c.Reason == v1alpha1.ReasonConflict {
			do = append(do, alternative("the cause is gone from the cluster", look))
		}
		return do
	}
	switch c.Reason {
	case v1alpha1.ReasonTranspileFailed, v1alpha1.ReasonInvalidTree, v1alpha1.ReasonPoolMissing, v1alpha1.ReasonConflict:
		return []string{describe, "push a commit that fixes it"}
	case v1alpha1.ReasonUnreachable:
		return []string{describe, alternative("spec.url or spec.secretRef is wrong", edit)}
	case v1alpha1.ReasonAuthentication:
		if ref := src.Spec.SecretRef; ref != nil {
			return []string{describe, "change Secret " + ref.Name + " in namespace bunsen-sources", alternative("the controller is to look now", look)}
		}
		return []string{describe, edit + "   # spec.secretRef"}
	case v1alpha1.ReasonRefNotFound:
		return []string{edit + "   # spec.ref; or push that ref"}
	case v1alpha1.ReasonPathNotFound:
		return []string{edit + "   # spec.path; or push a commit that has the folder"}
	case v1alpha1.ReasonHistoryRewritten:
		return []string{fmt.Sprintf("push a branch that contains %s", hashOf(src.Status.AppliedRevision)), alternative("the rewrite was intended", edit+"   # spec.historyPolicy: Warn")}
	case v1alpha1.ReasonSignature:
		return []string{"push a commit that is signed with an allowed key", alternative("the key is missing", edit+"   # spec.verify")}
	case v1alpha1.ReasonInvalidSpec:
		return []string{edit}
	}
	return []string{describe}
}
