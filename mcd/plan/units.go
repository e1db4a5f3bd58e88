package plan

import (
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// UnitPath is the path of a unit's file or mask.
func UnitPath(name string) string { return host.UnitDir + "/" + name }

// DropinPath is the path of a drop-in of a unit.
func DropinPath(unit, dropin string) string { return host.UnitDir + "/" + unit + ".d/" + dropin }

// unit reads one unit: its file or mask, its drop-ins, and whether it is enabled.
func (r *reader) unit(u ign.Unit) {
	want := Unit{Enabled: u.Enabled, Masked: u.Mask != nil && *u.Mask, Unmask: u.Mask != nil && !*u.Mask}
	hasContents := u.Contents != nil && *u.Contents != ""
	switch {
	case want.Masked:
		r.addPath(UnitPath(u.Name), host.Entry{Kind: host.Link, Target: "/dev/null"})
	case hasContents:
		want.HasContents = true
		r.addFile(UnitPath(u.Name), []byte(*u.Contents), host.Entry{Mode: 0o644})
	}
	for _, d := range u.Dropins {
		if d.Contents != nil { // Even an empty drop-in counts, because it hides the vendor's drop-in.
			r.addFile(DropinPath(u.Name, d.Name), []byte(*d.Contents), host.Entry{Mode: 0o644})
		}
	}
	r.w.Units[u.Name] = want
}
