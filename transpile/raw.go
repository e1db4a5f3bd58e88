package transpile

import (
	"maps"
	"slices"
	"strings"

	v35 "github.com/coreos/ignition/v2/config/v3_5"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/ignition"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/object"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// rawConfig takes a MachineConfig as it is.
func rawConfig(doc overlay.Document) draft {
	d := draft{origin: origin.Map{Files: doc.Origin.Files, At: map[string]origin.Pos{"$": {File: doc.File, Line: 1}}}}
	for p, at := range doc.Origin.At {
		if rest, ok := strings.CutPrefix(p, "$.spec.config"); ok {
			d.origin.At["$"+rest] = at
		} else if rest, ok := strings.CutPrefix(p, "$.spec."); ok {
			d.origin.At["spec."+rest] = at
		}
	}
	mc := mcfgv1.MachineConfig{}
	start := origin.Pos{File: doc.File}
	whole, err := object.Read(doc.Source)
	if err != nil {
		d.fatal(start, "machine-config", "not a MachineConfig: %v", err)
		return d
	}
	d.findings = object.Part{Object: whole, Path: "$", Places: doc.Origin, What: "MachineConfig"}.Decode(&mc)
	if origin.Fatal(d.findings) {
		return d
	}
	d.name, d.role = mc.Name, mc.Labels[v1alpha1.RoleLabel]
	d.metadata(mc, doc.Origin, start)
	d.leftOut(mc, start)
	if ignition.IsOld(mc.Spec.Config.Raw) {
		if mc.Spec.Config.Raw = d.upgrade(mc.Spec.Config.Raw); mc.Spec.Config.Raw == nil {
			return d
		}
	}
	d.unknownKeys(mc.Spec.Config.Raw)
	if d.config, err = machineconfig.Parse(mc.Spec); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			at, ok := d.origin.Find(outputPath(line))
			if !ok {
				at = start
			}
			d.fatal(at, "ignition", "%s", message.TranslateLine(line))
		}
	}
	return d
}

// upgrade translates Ignition 2, and moves its places along. It returns nil where that is impossible.
func (d *draft) upgrade(raw []byte) []byte {
	r, problems := ignition.Read(raw)
	d.findings = append(d.findings, ignition.Findings(problems, d.origin)...)
	if origin.Fatal(d.findings) {
		return nil
	}
	moved := r.Places(d.origin)
	for p, at := range d.origin.At {
		if !strings.HasPrefix(p, "$") {
			moved.At[p] = at
		}
	}
	d.origin = moved
	out, err := machineconfig.Config{Ignition: r.Config, HasIgnition: true}.IgnitionJSON()
	if err != nil {
		d.fatal(origin.Pos{}, "ignition", "%v", err)
		return nil
	}
	return out
}

// metadata refuses labels and annotations that the API server would refuse, though of a fragment's metadata only its name and
// role count: whoever wrote them expects them to be valid.
func (d *draft) metadata(mc mcfgv1.MachineConfig, places origin.Map, start origin.Pos) {
	for _, p := range checkMetadata(mc.Labels, mc.Annotations) {
		at, ok := places.Find("$.metadata." + p.field + "." + p.key)
		if !ok {
			at = start
		}
		d.fatal(at, ruleMetadata, "%s", p.text)
	}
}

// leftOut warns of metadata that a pool's selector may hope for, and that no fragment has.
func (d *draft) leftOut(mc mcfgv1.MachineConfig, at origin.Pos) {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(mc.Labels)) {
		if k != v1alpha1.RoleLabel {
			keys = append(keys, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(mc.Annotations)) {
		if k != v1alpha1.SecretPathsAnnotation {
			keys = append(keys, k)
		}
	}
	if len(keys) > 0 {
		d.findings = append(d.findings, origin.Finding{
			Warning: true, Rule: "ignored-field", At: at,
			Message: strings.Join(keys, ", ") + " does not reach the cluster: of a fragment's metadata only its name, its role and " + v1alpha1.SecretPathsAnnotation + " count",
		})
	}
}

// unknownKeys refuses what Ignition would pass over, as the effect of a typo would be missing on the node.
func (d *draft) unknownKeys(raw []byte) {
	_, rep, _ := v35.ParseCompatibleVersion(raw) // its error is reported where the config is read for good
	for _, e := range rep.Entries {
		key, unused := strings.CutPrefix(e.Message, "unused key ")
		if !unused {
			continue
		}
		at, _ := d.origin.Find(e.Context.String())
		d.fatal(at, "unknown-key", "Ignition knows no key %q here; check its spelling and its indentation", key)
	}
}
