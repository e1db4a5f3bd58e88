package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// The limits of a cluster for one object, in bytes. etcd accepts no request larger than MaxSize, and the API server
// accepts no object with annotations larger than maxAnnotations.
const (
	// MaxSize is the maximum size of a rendered config as an object, including its metadata.
	MaxSize = machineconfig.MaxContentObject
	// WarnSize is the size from which Rendered.Warnings contains a warning, because each node, the server and the
	// controller store the whole config.
	WarnSize = 512 << 10

	maxAnnotations = 256 << 10
	// metadata is the approximate size of an object without its spec: the commit, the owner, the managed fields.
	metadata = 8 << 10
	// perInput is the size that each input adds to an object, without the input's name: a digest in an annotation,
	// quoted twice.
	perInput = 84
)

// measure returns the size of a config as an object, and the part of it that its list of inputs needs.
func measure(r Rendered) (size, inputs int, err error) {
	text, err := json.Marshal(r.Spec)
	if err != nil {
		return 0, 0, fmt.Errorf("measuring the rendered config of pool %s: %w", r.Pool, err)
	}
	for _, name := range r.Inputs {
		inputs += perInput + len(name)
	}
	return len(text) + inputs + metadata, inputs, nil
}

// sized is an entry with the size of its contents in the config.
type sized struct {
	entry
	bytes int
}

// largest returns a text with the five largest files and units, and the inputs that set them.
func largest(r Rendered) string {
	var top []sized
	keep := func(s sized) {
		if len(top) == 5 && compareSized(top[4], s) < 0 {
			return
		}
		at, _ := slices.BinarySearchFunc(top, s, compareSized)
		top = slices.Insert(top, at, s)
		top = top[:min(5, len(top))]
	}
	for _, f := range r.Config.Ignition.Storage.Files {
		if f.Contents.Source != nil {
			keep(sized{entry{disruption.KindFile, f.Path}, len(*f.Contents.Source)})
		}
	}
	for _, u := range r.Config.Ignition.Systemd.Units {
		s := sized{entry{disruption.KindUnit, u.Name}, 0}
		if u.Contents != nil {
			s.bytes = len(*u.Contents)
		}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				s.bytes += len(*d.Contents)
			}
		}
		keep(s)
	}
	parts := make([]string, len(top))
	for i, s := range top {
		parts[i] = fmt.Sprintf("%s %s (%d bytes, from MachineConfig %s)", s.kind, s.name, s.bytes,
			r.book.lastOf(s.entry))
	}
	return strings.Join(parts, ", ")
}

// compareSized orders larger entries first.
func compareSized(a, b sized) int { return cmp.Or(b.bytes-a.bytes, cmp.Compare(a.name, b.name)) }

// reportNewNodesOnly reports which parts of a new config only new nodes of the pool get.
func reportNewNodesOnly(events kube.Events, pool *mcfgv1.MachineConfigPool, newNodes []disruption.Refusal) {
	if len(newNodes) == 0 {
		return
	}
	lines := make([]string, len(newNodes))
	for i, n := range newNodes {
		lines[i] = n.Field + ": " + n.Why
	}
	events.Send(kube.Event{
		Object: pool, Warning: true, Reason: "NewNodesOnly", Action: "Render",
		Note: strings.Join(lines, "; "),
	})
}

// reportRendered reports a new rendered config, with the warnings and notices of the merge.
func reportRendered(events kube.Events, pool *mcfgv1.MachineConfigPool, mc *mcfgv1.MachineConfig,
	rendered Rendered,
) {
	from := fmt.Sprintf("%s %q", kube.ShortRevision(mc.Annotations[v1alpha1.RevisionAnnotation]),
		mc.Annotations[v1alpha1.CommitSubjectAnnotation])
	if asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], mc.Name); len(asked.API) > 0 ||
		len(asked.After) > 0 {
		from = kube.RequesterText(asked)
	}
	events.Send(kube.Event{
		Object: pool, Related: mc, Reason: "RenderedConfigGenerated", Action: "Render",
		Note: mc.Name + " from " + from,
	})
	for _, w := range rendered.Warnings {
		events.Send(kube.Event{
			Object: pool, Related: mc, Warning: true, Reason: "RenderWarning", Action: "Render",
			Note: w,
		})
	}
	if n := len(rendered.Notices); n > 0 {
		lines := make([]string, n)
		for i, notice := range rendered.Notices {
			lines[i] = notice.String()
		}
		events.Send(kube.Event{
			Object: pool, Related: mc, Reason: "RenderNotice", Action: "Render",
			Note: "several MachineConfigs set the same thing: " + strings.Join(lines, "; "),
		})
	}
}

// measure reports the time from a commit to the first config that was rendered from it.
func (r *Controller) measure(f facts, mc *mcfgv1.MachineConfig) {
	src := newestSource(f.selectedSources())
	if r.ReportLatency != nil && src != nil &&
		src.Status.AppliedCommit.Revision == mc.Annotations[v1alpha1.RevisionAnnotation] {
		r.ReportLatency(f.pool.Name, r.Now().Sub(src.Status.AppliedCommit.Time.Time))
	}
}
