package plan

import (
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// UnitPath is where a unit's file is written, or its mask.
func UnitPath(name string) string { return host.UnitDir + "/" + name }

// DropinPath is where a drop-in of a unit is written.
func DropinPath(unit, dropin string) string { return host.UnitDir + "/" + unit + ".d/" + dropin }

// unit reads one unit: its file or mask, its drop-ins, and what is said about its enablement.
func (r *reader) unit(u ign.Unit) {
	want := WantedUnit{Enabled: u.Enabled, Masked: u.Mask != nil && *u.Mask, Unmask: u.Mask != nil && !*u.Mask}
	hasContents := u.Contents != nil && *u.Contents != ""
	switch {
	case want.Masked:
		r.put(UnitPath(u.Name), host.Entry{Kind: host.Link, Target: "/dev/null"})
	case hasContents:
		want.HasContents = true
		r.file(UnitPath(u.Name), []byte(*u.Contents), host.Entry{Mode: 0o644})
	}
	for _, d := range u.Dropins {
		if d.Contents != nil { // an empty one hides that of the vendor
			r.file(DropinPath(u.Name, d.Name), []byte(*d.Contents), host.Entry{Mode: 0o644})
		}
	}
	r.w.Units[u.Name] = want
}
