package inspect

import (
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// WhySource says why the newest commit of a GitSource is not on the cluster, or that it is, and which pools do not run it yet.
func WhySource(c Cluster, name string, now time.Time) (Why, error) {
	f := newFleet(c, now)
	at := slices.IndexFunc(f.Sources, func(s v1alpha1.GitSource) bool { return s.Name == name })
	if at < 0 {
		return Why{}, fmt.Errorf("there is no GitSource %q; `bunsen get sources` lists them", name)
	}
	src := &f.Sources[at]
	row := sourceRow(src, f.controllers(), now)
	why := Why{About: "gitsource/" + name, Subjects: Subjects{Source: &row}}
	fed := poolsOf(f, src)
	v := &poolView{object: &mcfgv1.MachineConfigPool{}} // of a source that feeds no pool
	if len(fed) > 0 {
		v = fed[0]
	}
	r := reasons{f}
	answers := r.controllerAnswers(f.Sources[at : at+1])
	if a, is := sourceAnswer(f, v, src); is {
		answers = append(answers, a)
	}
	if worstFirst(answers); len(answers) == 0 {
		answers = []Answer{sourceCourse(src)}
	}
	for _, v := range fed {
		if first := r.poolAnswers(v, nil)[0]; first.Outcome != Fine && first.Cause != CauseController && first.Cause != CauseSource {
			answers = append(answers, Answer{Outcome: first.Outcome, Cause: first.Cause, Reason: "pool " + v.object.Name + ": " + first.Reason, Do: []string{"bunsen why pool/" + v.object.Name}})
		}
	}
	why.settle(append(answers, sourceWarnings(src)...))
	return why, nil
}

// sourceWarnings are what somebody should know of the applied commit, the first of many.
func sourceWarnings(src *v1alpha1.GitSource) []Answer {
	const most = 5
	var out []Answer
	for i, w := range src.Status.Warnings {
		if i == most {
			out = append(out, Answer{Outcome: Fine, Cause: CauseSource, Reason: fmt.Sprintf("and %s: kubectl describe gitsource %s", count(len(src.Status.Warnings)-most, "more warning"), src.Name)})
			break
		}
		out = append(out, Answer{Outcome: Fine, Cause: CauseSource, Reason: w})
	}
	return out
}

// poolsOf are the pools that a source feeds, by name.
func poolsOf(f *fleet, src *v1alpha1.GitSource) []*poolView {
	var out []*poolView
	for _, name := range sortedKeys(f.pools) {
		if v := f.pools[name]; v.object.Annotations[v1alpha1.SourceAnnotation] == src.Name || gave(src, name) {
			out = append(out, v)
		}
	}
	return out
}

// sourceCourse is the answer for a source that nothing is in the way of.
func sourceCourse(src *v1alpha1.GitSource) Answer {
	applied := src.Status.AppliedRevision
	switch {
	case src.Status.Applying != nil:
		return Answer{Outcome: Progressing, Cause: CauseSource, Reason: shortRevision(src.Status.Applying.Revision) + " is being applied"}
	case applied == "":
		return Answer{Outcome: Progressing, Cause: CauseSource, Reason: "no commit of it is applied yet"}
	case src.Status.ObservedRevision != applied && src.Status.ObservedRevision != "":
		return Answer{Outcome: Progressing, Cause: CauseSource, Reason: shortRevision(src.Status.ObservedRevision) + " is next; " + shortRevision(applied) + " is applied"}
	}
	return Answer{Outcome: Fine, Reason: shortRevision(applied) + " is applied"}
}

// line is the source in one line.
func (r SourceRow) line(now time.Time) string {
	text := r.Name + "   " + dash(shortRevision(r.Revision))
	if r.Subject != "" {
		text += " " + source.Quote(r.Subject)
	}
	if r.LastLook != nil {
		text += "   looked " + r.looked(now)
	}
	return text
}
