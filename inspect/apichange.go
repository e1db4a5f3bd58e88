package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// kindMachineConfig is the kind of the objects that a pool is rendered from.
const kindMachineConfig = "MachineConfig"

// undoAPI are the commands that take back the changes through the API that a pool got since its last good config. A change that a
// user took back already is left out.
func undoAPI(f *fleet, v *poolView, config, good string) []string {
	var out []string
	for _, c := range apiChangesSince(f, v, config, good) {
		out = append(out, undoChange(c))
	}
	return out
}

// apiChangesSince are the changes through the API since the last good config that are still in force, the newest first.
func apiChangesSince(f *fleet, v *poolView, config, good string) []v1alpha1.APIChange {
	all := slices.Clone(f.config(config).API)
	if v.wave.Record.Config != good {
		all = append(all, v.wave.Record.API...)
	}
	past, err := v1alpha1.ParseRolloutHistory(v.object.Annotations[v1alpha1.RolloutHistoryAnnotation])
	if good == "" || err != nil {
		past = nil
	}
	for _, o := range past {
		if o.Config == good {
			break
		}
		all = append(all, o.API...)
	}
	target, err := v1alpha1.ParsePoolTarget(v.object.Annotations[v1alpha1.TargetAnnotation])
	known := err == nil && (len(target.Inputs) > 0 || len(target.Sources) > 0)
	var out []v1alpha1.APIChange
	seen := map[string]bool{}
	for _, c := range all {
		key := c.Kind + "/" + c.Name
		if seen[key] {
			continue
		}
		seen[key] = true
		there := slices.ContainsFunc(target.Inputs, func(in v1alpha1.TargetInput) bool { return in.Name == c.Name })
		inForce := slices.ContainsFunc(target.InForce, func(o v1alpha1.ChangeInForce) bool { return o.Kind == c.Kind && o.Name == c.Name })
		if known && !inForce && c.Kind == kindMachineConfig && there == (c.Action == v1alpha1.APIDeleted) {
			continue
		}
		out = append(out, c)
	}
	return out
}

// undoChange is the command that takes back one change through the API.
func undoChange(c v1alpha1.APIChange) string {
	why := "   # " + c.String()
	switch {
	case c.Kind != kindMachineConfig:
		return "kubectl edit mcp " + c.Name + "   # put spec.machineConfigSelector back: " + c.String()
	case c.Action == v1alpha1.APICreated:
		return "kubectl delete mc " + c.Name + why
	case c.Action == v1alpha1.APIDeleted:
		return "kubectl apply -f FILE   # FILE has MachineConfig " + c.Name + ", which was deleted through the API"
	}
	return "kubectl edit mc " + c.Name + why
}

// byAPI reports whether changes through the API, and no commit, asked for the config.
func (r RenderedRow) byAPI() bool { return len(r.API) > 0 && r.Revision == "" }

// setRequester says who asked for the config.
func (r *RenderedRow) setRequester(asked v1alpha1.Requester) {
	if r.API, r.After = asked.API, asked.After; asked.ByAPI() {
		r.Source, r.Revision, r.Subject, r.Author = "", "", "", ""
		return
	}
	if asked.Revision != r.Revision || asked.Subject != "" {
		r.Revision, r.Subject, r.Author = asked.Revision, asked.Subject, asked.Author
	}
}

// unprovenCommit is the commit that the changes through the API came on that asked for a pool's config, where the pool was never healthy
// with that commit; nil where it was, or no such commit is known.
func unprovenCommit(v *poolView, config string) *v1alpha1.CommitRef {
	if healthyConfig(v) == config {
		return nil
	}
	return v1alpha1.RequesterOf(v.object.Annotations, config).Unproven
}

// manualConfigs are the MachineConfigs of a pool's target that users made through the API, but for those that asked for the target. There
// are none where nothing follows git.
func manualConfigs(f *fleet, v *poolView, config string) []string {
	target, err := v1alpha1.ParsePoolTarget(v.object.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || target.Config != config || len(f.Sources) == 0 {
		return nil
	}
	var out []string
	for _, in := range target.Inputs {
		asked := slices.ContainsFunc(target.API, func(c v1alpha1.APIChange) bool { return c.Kind == kindMachineConfig && c.Name == in.Name })
		if in.Source == "" && !asked {
			out = append(out, in.Name)
		}
	}
	return out
}

// commitLabel names who asked for a config in a column for commits, the changes through the API first; empty where that is unknown.
func commitLabel(changes []v1alpha1.APIChange, revision string) string {
	label, commit := apiLabel(changes), shortRevision(revision)
	if label == "" || commit == "" {
		return cmp.Or(label, commit)
	}
	return label + "; " + commit
}

// apiNames names changes through the API in a sentence, such as `MachineConfig 99-by-hand (made through the API)`.
func apiNames(changes []v1alpha1.APIChange) string {
	c := changes[0]
	c.Manager, c.At = "", metav1.Time{}
	object, how, _ := strings.Cut(c.String(), ", ")
	text := object + " (" + how + ")"
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// apiLabel names changes through the API in a column for commits; empty where there are none.
func apiLabel(changes []v1alpha1.APIChange) string {
	switch len(changes) {
	case 0:
		return ""
	case 1:
		return "API: " + changes[0].Name
	}
	return "API: " + changes[0].Name + " and " + strconv.Itoa(len(changes)-1) + " more"
}
