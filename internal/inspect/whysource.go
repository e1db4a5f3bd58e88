package inspect

import (
	"fmt"
	"maps"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"

	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/source"
)

// WhySource returns the answer that says why the newest commit of a GitSource is not on the cluster. If the commit is
// on the cluster, the answer says which pools do not run it yet.
func WhySource(c fleet.Cluster, name string, now time.Time) (Why, error) {
	f := fleet.New(c, now)
	at := slices.IndexFunc(f.Sources, func(s v1alpha1.GitSource) bool { return s.Name == name })
	if at < 0 {
		return Why{}, fmt.Errorf("there is no GitSource %q; `bunsen get sources` lists them", name)
	}
	src := &f.Sources[at]
	fed := poolsOf(f, src)
	var pools []Answer
	for _, v := range fed {
		if first := PoolReason(f, v, nil)[0]; first.Outcome != Fine && first.Cause != fleet.CauseController &&
			first.Cause != fleet.CauseSource {
			pools = append(pools, Answer{Outcome: first.Outcome, Cause: first.Cause, Reason: "pool " +
				v.Object.Name + ": " + first.Reason, Do: []string{"bunsen why pool/" + v.Object.Name}})
		}
	}
	return whySource(f, src, fed, pools), nil
}

// whySource returns the answer about a GitSource. The parameter fed has the pools that get a config from it, and
// ofPools has answers about them.
func whySource(f *fleet.Fleet, src *v1alpha1.GitSource, fed []*fleet.Pool, ofPools []Answer) Why {
	row := sourceRow(src, fleet.ReadControllers(f), f.Now)
	why := Why{About: "gitsource/" + src.Name, Subjects: Subjects{Source: &row}}
	answers := sourceAnswers(f, src, fed)
	row.Outcome = answers[0].Outcome
	why.setAnswers(slices.Concat(answers, ofPools, sourceWarnings(src)))
	return why
}

// sourceAnswers returns the answers about a source itself, worst first; at least one. The parameter fed has the pools
// that get a config from it.
func sourceAnswers(f *fleet.Fleet, src *v1alpha1.GitSource, fed []*fleet.Pool) []Answer {
	// This pool is a placeholder for a source from which no pool gets a config.
	v := &fleet.Pool{Object: &mcfgv1.MachineConfigPool{}}
	if len(fed) > 0 {
		v = fed[0]
	}
	answers := Controllers(f, []v1alpha1.GitSource{*src})
	if a, is := SourceReason(f, v, src); is {
		answers = append(answers, a)
	}
	if len(answers) == 0 {
		return []Answer{sourceCourse(src)}
	}
	return WorstFirst(answers)
}

// sourceWarnings are the applied commit's warnings, limited to the first ones.
func sourceWarnings(src *v1alpha1.GitSource) []Answer {
	const most = 5
	var out []Answer
	for i, w := range src.Status.Warnings {
		if i == most {
			out = append(out, Answer{
				Outcome: Fine, Cause: fleet.CauseSource,
				Reason: fmt.Sprintf("and %s: kubectl describe gitsource %s", fleet.Count(len(src.Status.Warnings)-most,
					"more warning"), src.Name),
			})
			break
		}
		out = append(out, Answer{Outcome: Fine, Cause: fleet.CauseSource, Reason: w})
	}
	return out
}

// poolsOf returns the pools that get their config from a source, by name.
func poolsOf(f *fleet.Fleet, src *v1alpha1.GitSource) []*fleet.Pool {
	var out []*fleet.Pool
	for _, name := range slices.Sorted(maps.Keys(f.PoolByName)) {
		if v := f.PoolByName[name]; v.Object.Annotations[v1alpha1.SourceAnnotation] == src.Name ||
			fleet.GavePool(src, name) {
			out = append(out, v)
		}
	}
	return out
}

// sourceCourse returns the answer for a source without a problem.
func sourceCourse(src *v1alpha1.GitSource) Answer {
	applied := src.Status.AppliedRevision
	switch {
	case src.Status.Progress != nil:
		return Answer{
			Outcome: Progressing, Cause: fleet.CauseSource, Reason: fleet.ProgressText(src),
		}
	case src.Status.Applying != nil:
		return Answer{
			Outcome: Progressing, Cause: fleet.CauseSource,
			Reason: fleet.ShortRevision(src.Status.Applying.Revision) + " is being applied",
		}
	case applied == "":
		return Answer{
			Outcome: Progressing, Cause: fleet.CauseSource,
			Reason: "no commit of it is applied yet",
		}
	case src.Status.ObservedRevision != applied && src.Status.ObservedRevision != "":
		return Answer{
			Outcome: Progressing, Cause: fleet.CauseSource,
			Reason: fleet.ShortRevision(src.Status.ObservedRevision) + " is next; " + fleet.ShortRevision(applied) +
				" is applied",
		}
	}
	return Answer{Outcome: Fine, Reason: fleet.ShortRevision(applied) + " is applied"}
}

// line returns the source on one line.
func (r SourceRow) line(now time.Time) string {
	text := r.Name + "   " + terminal.Dash(fleet.ShortRevision(r.Revision))
	if r.Subject != "" {
		text += " " + source.Quote(r.Subject)
	}
	if r.SignedBy != "" {
		text += "   signed by " + r.SignedBy
	}
	if r.LastLook != nil {
		text += "   looked " + r.looked(now)
	}
	return text
}
