package drift

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Report returns the drift report of the Node: every item except those with the action Ignore. ok is false for an empty
// report.
func (d Decision) Report(config string) (r v1alpha1.Drift, ok bool) {
	r = v1alpha1.Drift{Config: config, Items: []v1alpha1.DriftItem{}}
	for _, v := range d.Results {
		if v.Action != v1alpha1.DriftIgnore {
			r.Items = append(r.Items, v.report())
		}
	}
	return r, len(r.Items) > 0
}

func (v Result) report() v1alpha1.DriftItem {
	it := v1alpha1.DriftItem{
		Name: v.Name, Kind: v.Kind, Action: v.Action,
		Since: metav1.NewTime(v.Since.UTC().Truncate(time.Second)), Why: v.Why, Secret: v.Secret,
	}
	if !v.isPath() {
		it.Why = strings.TrimSuffix(v.what()+"; "+v.Why, "; ")
		if v.Kind == v1alpha1.DriftEnablement {
			it.Expected, it.Actual = &v1alpha1.DriftEntry{Type: v.Step.After.Word},
				&v1alpha1.DriftEntry{Type: v.Step.Before.Word}
		}
		return it
	}
	it.Expected, it.Actual = v.side(v.Step.After.Entry), v.side(v.Step.Before.Entry)
	if !v.Modified.IsZero() {
		it.Modified = &metav1.Time{Time: v.Modified.UTC().Truncate(time.Second)}
	}
	return it
}

func (v Result) side(e host.Entry) *v1alpha1.DriftEntry {
	out := &v1alpha1.DriftEntry{Type: string(e.Kind), Target: e.Target}
	if e.Kind == host.Absent || e.Kind == host.Unsafe {
		return out
	}
	out.Owner = owner(e)
	if e.Kind != host.Link {
		out.Mode = fmt.Sprintf("%04o", e.Mode)
	}
	if !v.Secret {
		out.Digest = string(e.Digest)
	}
	return out
}

// Encode returns a report as JSON of at most v1alpha1.MaxDrift bytes. If the report is too long, Encode omits items,
// beginning with those that do not degrade the node. More is the number of omitted items.
func Encode(r v1alpha1.Drift) (string, error) {
	text, err := json.Marshal(r)
	if err != nil || len(text) <= v1alpha1.MaxDrift {
		return string(text), err
	}
	room := v1alpha1.MaxDrift - len(`{"config":"","items":[],"more":1000000}`) - len(r.Config)
	keep := map[int]bool{}
	for _, first := range []bool{true, false} {
		for i, it := range r.Items {
			one, err := json.Marshal(it)
			if err != nil {
				return "", err
			}
			if (it.Action == v1alpha1.DriftDegrade) == first && len(one)+1 <= room {
				keep[i] = true
				room -= len(one) + 1
			}
		}
	}
	cut := v1alpha1.Drift{Config: r.Config, Items: []v1alpha1.DriftItem{}, More: r.More + len(r.Items) - len(keep)}
	for i, it := range r.Items {
		if keep[i] {
			cut.Items = append(cut.Items, it)
		}
	}
	text, err = json.Marshal(cut)
	return string(text), err
}
