package inspect

import (
	"slices"
	"strconv"

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
	known := err == nil && len(target.Inputs) > 0
	var out []v1alpha1.APIChange
	seen := map[string]bool{}
	for _, c := range all {
		key := c.Kind + "/" + c.Name
		if seen[key] {
			continue
		}
		seen[key] = true
		there := slices.ContainsFunc(target.Inputs, func(in v1alpha1.TargetInput) bool { return in.Name == c.Name })
		if known && c.Kind == kindMachineConfig && there == (c.Action == v1alpha1.APIDeleted) {
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
	if r.API = asked.API; asked.ByAPI() {
		r.Source, r.Revision, r.Subject, r.Author = "", "", "", ""
		return
	}
	if asked.Revision != r.Revision || asked.Subject != "" {
		r.Revision, r.Subject, r.Author = asked.Revision, asked.Subject, asked.Author
	}
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
