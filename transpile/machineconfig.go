package transpile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// rawConfig reads a MachineConfig.
func rawConfig(doc documents.Document) translation {
	d := translation{origin: origin.Map{
		Files: doc.Origin.Files,
		At:    map[string]origin.Pos{"$": {File: doc.File, Line: 1}},
	}}
	for p, at := range doc.Origin.At {
		if rest, ok := strings.CutPrefix(p, "$.spec.config"); ok {
			d.origin.At["$"+rest] = at
		} else if rest, ok := strings.CutPrefix(p, "$.spec."); ok {
			d.origin.At["spec."+rest] = at
		}
	}
	mc := mcfgv1.MachineConfig{}
	start := origin.Pos{File: doc.File}
	whole, err := kinds.ReadObject(doc.Source)
	if err != nil {
		d.Errorf(start, "machine-config", "not a MachineConfig: %v", err)
		return d
	}
	d.List = kinds.ObjectPart{Object: whole, Path: "$", Places: doc.Origin, What: "MachineConfig"}.Decode(&mc)
	if d.HasErrors() {
		return d
	}
	d.name, d.role = mc.Name, mc.Labels[v1alpha1.RoleLabel]
	d.checkMetadata(mc, doc.Origin, start)
	d.warnDropped(mc, start)
	if kinds.IsOldIgnition(mc.Spec.Config.Raw) {
		if mc.Spec.Config.Raw = d.upgrade(mc.Spec.Config.Raw); mc.Spec.Config.Raw == nil {
			return d
		}
	}
	d.checkKeys(mc.Spec.Config.Raw)
	if d.HasErrors() {
		return d
	}
	if d.config, err = machineconfig.Parse(mc.Spec); err != nil {
		for _, p := range machineconfig.ProblemsOf(err) {
			at, ok := d.origin.Find(p.Path)
			if !ok {
				at = start
			}
			d.Errorf(at, "ignition", "%s", message.OfProblem(p))
		}
	}
	return d
}

// upgrade translates Ignition 2 and its origins. upgrade returns nil if that is impossible.
func (d *translation) upgrade(raw []byte) []byte {
	r, problems := kinds.ReadIgnition(raw)
	d.Add(kinds.IgnitionFindings(problems, d.origin)...)
	if d.HasErrors() {
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
		d.Errorf(origin.Pos{}, "ignition", "%v", err)
		return nil
	}
	return out
}

// checkMetadata refuses labels and annotations that the API server would refuse. The check is useful although a
// fragment keeps only the name and the role of the document's metadata.
func (d *translation) checkMetadata(mc mcfgv1.MachineConfig, places origin.Map, start origin.Pos) {
	for _, p := range cluster.CheckMetadata(mc.Labels, mc.Annotations) {
		at, ok := places.Find("$.metadata." + p.Field + "." + p.Key)
		if !ok {
			at = start
		}
		d.Errorf(at, cluster.MetadataRule, "%s", p.Text)
	}
}

// warnDropped warns of metadata that a fragment does not keep, because a pool's selector may need that metadata.
func (d *translation) warnDropped(mc mcfgv1.MachineConfig, at origin.Pos) {
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
		d.Warnf(at, "ignored-field", "%s does not reach the cluster: of a fragment's metadata only its name, its "+
			"role and %s count", strings.Join(keys, ", "), v1alpha1.SecretPathsAnnotation)
	}
}

// checkSources refuses addresses that end in a line end, as the YAML of a block (|) has one.
func (d *translation) checkSources(raw []byte) {
	var c struct {
		Storage struct {
			Files []struct{ Contents struct{ Source string } }
		}
	}
	if json.Unmarshal(raw, &c) != nil {
		return // Reading the config later reports this error.
	}
	for i, f := range c.Storage.Files {
		if strings.HasSuffix(f.Contents.Source, "\n") {
			at, _ := d.origin.Find(fmt.Sprintf("$.storage.files.%d.contents.source", i))
			d.Errorf(at, "ignition", "the source ends in a line end, which an address cannot have: write it in one "+
				"line "+
				"behind `source: `, or after >-")
		}
	}
}

// checkKeys refuses unknown keys, which Ignition ignores: the effect of a typo would be missing on the node.
func (d *translation) checkKeys(raw []byte) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	if mistyped := kinds.MistypedIgnition(raw); mistyped != nil {
		d.Add(kinds.IgnitionFindings([]kinds.IgnitionProblem{*mistyped}, d.origin)...)
		return
	}
	d.checkSources(raw)
	_, rep, _ := ign.ParseCompatibleVersion(raw) // Reading the config later reports this error.
	for _, e := range rep.Entries {
		key, unused := strings.CutPrefix(e.Message, "unused key ")
		if !unused {
			continue
		}
		at, _ := d.origin.Find(e.Context.String())
		instead := "check its spelling and its indentation"
		if known := message.LeftOver(key); known != "" {
			instead = known
		}
		d.Errorf(at, "unknown-key", "Ignition knows no key %q here; %s", key, instead)
	}
}
