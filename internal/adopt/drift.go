package adopt

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Drift is one difference that a node reports, with the content on the node.
type Drift struct {
	// Node reports the difference, and Config is its config in force.
	Node, Config string
	Item         v1alpha1.DriftItem
	// Export is the content on the node; empty for an account and for the enablement of a unit.
	Export v1alpha1.DriftExport
	// Units are the systemd units of Config.
	Units []string
}

// ImportDrift creates a repository from one difference, so that the config gets the content of the node.
func ImportDrift(d Drift, opts Options) (Repository, []Finding, error) {
	pool := v1alpha1.RenderedPool(d.Config)
	config, err := d.ignition(pool)
	if err != nil {
		return Repository{}, nil, fmt.Errorf("adopting %s: %w", d.Item.Name, err)
	}
	if pool == "" {
		return Repository{}, nil, fmt.Errorf("adopting %s: the node's config %q is not the rendered config of a "+
			"pool, so the pool to change is not known", d.Item.Name, d.Config)
	}
	data, err := driftConfig(d.Item.Name, pool, config)
	if err != nil {
		return Repository{}, nil, fmt.Errorf("adopting %s: %w", d.Item.Name, err)
	}
	r, findings, err := Import([]Input{{Name: d.Item.Name, Data: data}}, opts)
	if err == nil && len(r.Objects) == 1 && r.Objects[0].Skipped != "" {
		err = fmt.Errorf("adopting %s: %s", d.Item.Name, r.Objects[0].Skipped)
	}
	head := fmt.Appendf(nil, "# %s as node/%s has it, where it differs from %s.\n", d.Item.Name, d.Node, d.Config)
	for name, text := range r.Files {
		if strings.HasSuffix(name, ".bu") {
			r.Files[name] = append(head[:len(head):len(head)], withoutComment(text)...)
		}
	}
	return r, findings, err
}

func withoutComment(text []byte) []byte {
	for bytes.HasPrefix(text, []byte("#")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text
}

// ignition returns the content of the node as an Ignition config: for a unit's file, mask or drop-in, a part of the
// unit.
func (d Drift) ignition(pool string) (ign.Config, error) {
	if !strings.HasPrefix(d.Item.Name, "/") {
		return d.enablement()
	}
	if d.Export.Type == "" {
		return ign.Config{}, fmt.Errorf("the node has nothing at %s; to remove it from the repository, find its line "+
			"with `bunsen explain %[1]s --pool %s`", d.Export.Path, pool)
	}
	if u, ok := d.unit(); ok {
		return ign.Config{Systemd: ign.Systemd{Units: []ign.Unit{u}}}, nil
	}
	storage, err := d.storage()
	return ign.Config{Storage: storage}, err
}

// unit returns the unit that the path belongs to, with its content on the node; false for any other path.
func (d Drift) unit() (ign.Unit, bool) {
	name, dropin, ok := unitOf(d.Export.Path)
	if !ok || !slices.Contains(d.Units, name) {
		return ign.Unit{}, false
	}
	text := string(d.Export.Contents)
	switch {
	case d.Export.Type == "link" && d.Export.Target == "/dev/null" && dropin == "":
		return ign.Unit{Name: name, Mask: new(true)}, true
	case d.Export.Type == "file" && dropin == "":
		return ign.Unit{Name: name, Contents: &text}, true
	case d.Export.Type == "file":
		return ign.Unit{Name: name, Dropins: []ign.Dropin{{Name: dropin, Contents: &text}}}, true
	}
	return ign.Unit{}, false
}

func (d Drift) storage() (out ign.Storage, err error) {
	x := d.Export
	n := ign.Node{Path: x.Path, User: ign.NodeUser{ID: ownerID(x.UID)}, Group: ign.NodeGroup{ID: ownerID(x.GID)}}
	var mode *int
	if x.Mode != nil {
		mode = new(int(*x.Mode))
	}
	switch x.Type {
	case "file":
		n.Overwrite = new(true)
		source := "data:;base64," + base64.StdEncoding.EncodeToString(x.Contents)
		out.Files = []ign.File{{Node: n, FileEmbedded1: ign.FileEmbedded1{
			Mode:     mode,
			Contents: ign.Resource{Source: &source},
		}}}
	case "dir":
		out.Directories = []ign.Directory{{Node: n, DirectoryEmbedded1: ign.DirectoryEmbedded1{Mode: mode}}}
	case "link":
		n.Overwrite = new(true)
		out.Links = []ign.Link{{Node: n, LinkEmbedded1: ign.LinkEmbedded1{Target: &x.Target}}}
	default:
		return out, fmt.Errorf("the node has a device, pipe or socket there, and a config cannot have one")
	}
	return out, nil
}

// enablement returns a config that enables, disables or masks a unit as on the node.
func (d Drift) enablement() (c ign.Config, err error) {
	if d.Item.Kind != v1alpha1.DriftEnablement || d.Item.Actual == nil {
		return c, fmt.Errorf("only paths and the enablement of units can be adopted; write this into the repository "+
			"yourself: %s", d.Item.Why)
	}
	if d.Item.Actual.Type == "masked" {
		c.Systemd.Units = []ign.Unit{{Name: d.Item.Name, Mask: new(true)}}
		return c, nil
	}
	c.Systemd.Units = []ign.Unit{{Name: d.Item.Name, Enabled: new(d.Item.Actual.Type == "enabled")}}
	return c, nil
}

// unitOf splits the path of a unit's file or drop-in; false for other paths.
func unitOf(path string) (unit, dropin string, ok bool) {
	const unitDir = "/etc/systemd/system/"
	rest, below := strings.CutPrefix(path, unitDir)
	unit, dropin, inside := strings.Cut(rest, "/")
	switch {
	case !below || rest == "":
		return "", "", false
	case !inside:
		return unit, "", true
	}
	unit, isDropin := strings.CutSuffix(unit, ".d")
	return unit, dropin, isDropin && !strings.Contains(dropin, "/")
}

// ownerID returns nil for root, the default owner.
func ownerID(id int64) *int {
	if id == 0 {
		return nil
	}
	return new(int(id))
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// driftConfig is a MachineConfig whose name sorts late in its pool, so that it overrides the values of the repository.
func driftConfig(what, pool string, c ign.Config) ([]byte, error) {
	const maxName = 80
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(what), "-"), "-")
	name = strings.Trim(name[max(0, len(name)-maxName):], "-")
	spec, err := machineconfig.Config{HasIgnition: true, Ignition: c}.Spec()
	if err != nil {
		return nil, err
	}
	return json.Marshal(mcfgv1.MachineConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: machineConfigKind},
		ObjectMeta: metav1.ObjectMeta{
			Name:   "99-" + pool + "-drift-" + name,
			Labels: map[string]string{v1alpha1.RoleLabel: pool},
		},
		Spec: spec,
	})
}
