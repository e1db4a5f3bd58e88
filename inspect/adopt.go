package inspect

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Pool is the pool in the name of a rendered config, or "".
func Pool(rendered string) string {
	rest, ok := strings.CutPrefix(rendered, "rendered-")
	i := strings.LastIndexByte(rest, '-')
	if !ok || i < 0 {
		return ""
	}
	return rest[:i]
}

// unitDir is where units and their drop-ins are.
const unitDir = "/etc/systemd/system/"

// UnitOf splits the path of a unit's file or drop-in: unit, and drop-in or "". ok is false for other paths.
func UnitOf(path string) (unit, dropin string, ok bool) {
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

// These are the parts of Ignition's config that an adopted path needs.
type (
	ignConfig struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
		Storage *ignStorage `json:"storage,omitempty"`
		Systemd *ignSystemd `json:"systemd,omitempty"`
	}
	ignStorage struct {
		Files       []ignNode `json:"files,omitempty"`
		Directories []ignNode `json:"directories,omitempty"`
		Links       []ignNode `json:"links,omitempty"`
	}
	ignNode struct {
		Path      string     `json:"path"`
		Overwrite bool       `json:"overwrite,omitempty"`
		Mode      *int32     `json:"mode,omitempty"`
		User      *ignID     `json:"user,omitempty"`
		Group     *ignID     `json:"group,omitempty"`
		Contents  *ignSource `json:"contents,omitempty"`
		Target    string     `json:"target,omitempty"`
	}
	ignID struct {
		ID int64 `json:"id"`
	}
	ignSource struct {
		Source string `json:"source"`
	}
	ignSystemd struct {
		Units []ignUnit `json:"units"`
	}
	ignUnit struct {
		Name     string      `json:"name"`
		Enabled  *bool       `json:"enabled,omitempty"`
		Mask     bool        `json:"mask,omitempty"`
		Contents string      `json:"contents,omitempty"`
		Dropins  []ignDropin `json:"dropins,omitempty"`
	}
	ignDropin struct {
		Name     string `json:"name"`
		Contents string `json:"contents"`
	}
	metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	}
	machineConfig struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Spec       struct {
			Config ignConfig `json:"config"`
		} `json:"spec"`
	}
)

// AdoptedPath writes what a node has at a path as a MachineConfig of its pool, in JSON, for package adopt to make Butane
// of. AsUnit writes a unit's file, mask or drop-in as part of systemd's units, as the config has it.
func AdoptedPath(x v1alpha1.DriftExport, pool string, asUnit bool) ([]byte, error) {
	var c ignConfig
	unit, dropin, isUnit := UnitOf(x.Path)
	n := ignNode{Path: x.Path, Mode: x.Mode, User: idOf(x.UID), Group: idOf(x.GID)}
	switch {
	case x.Type == "":
		return nil, fmt.Errorf("adopting %s: nothing is there on the node; take it out of the repository instead: `bunsen explain %s --pool %s` says where it is", x.Path, x.Path, pool)
	case asUnit && isUnit && x.Type == "link" && x.Target == "/dev/null" && dropin == "":
		c.Systemd = &ignSystemd{Units: []ignUnit{{Name: unit, Mask: true}}}
	case asUnit && isUnit && x.Type == "file" && dropin == "":
		c.Systemd = &ignSystemd{Units: []ignUnit{{Name: unit, Contents: string(x.Contents)}}}
	case asUnit && isUnit && x.Type == "file":
		c.Systemd = &ignSystemd{Units: []ignUnit{{Name: unit, Dropins: []ignDropin{{dropin, string(x.Contents)}}}}}
	case x.Type == "file":
		n.Overwrite, n.Contents = true, &ignSource{"data:;base64," + base64.StdEncoding.EncodeToString(x.Contents)}
		c.Storage = &ignStorage{Files: []ignNode{n}}
	case x.Type == "dir":
		c.Storage = &ignStorage{Directories: []ignNode{n}}
	case x.Type == "link":
		n.Target, n.Overwrite = x.Target, true
		c.Storage = &ignStorage{Links: []ignNode{n}}
	default:
		return nil, fmt.Errorf("adopting %s: it is a device, pipe or socket on the node, which no config can have", x.Path)
	}
	return adopted(x.Path, pool, c)
}

// AdoptedUnit writes that a unit is enabled or disabled, as a node has it, in the same way.
func AdoptedUnit(r DriftRow, pool string) ([]byte, error) {
	if r.Kind != v1alpha1.DriftEnablement || r.Actual == nil {
		return nil, fmt.Errorf("adopting %s: of a node, paths and the enablement of units can be adopted; write this into the repository by hand: %s", r.Name, r.Why)
	}
	on := r.Actual.Type == "enabled"
	return adopted(r.Name, pool, ignConfig{Systemd: &ignSystemd{Units: []ignUnit{{Name: r.Name, Enabled: &on}}}})
}

var unnamed = regexp.MustCompile(`[^a-z0-9]+`)

// adopted names a MachineConfig so that it comes late in its pool.
func adopted(what, pool string, c ignConfig) ([]byte, error) {
	if pool == "" {
		return nil, fmt.Errorf("adopting %s: the node's config is not a pool's rendered one, so nobody knows which pool this is for", what)
	}
	c.Ignition.Version = v1alpha1.IgnitionVersion
	slug := strings.Trim(unnamed.ReplaceAllString(strings.ToLower(what), "-"), "-")
	if len(slug) > 80 {
		slug = strings.Trim(slug[len(slug)-80:], "-")
	}
	mc := machineConfig{
		APIVersion: "machineconfiguration.openshift.io/v1", Kind: "MachineConfig",
		Metadata: metadata{"99-" + pool + "-drift-" + slug, map[string]string{v1alpha1.RoleLabel: pool}},
	}
	mc.Spec.Config = c
	return json.Marshal(mc)
}

func idOf(id int64) *ignID {
	if id == 0 {
		return nil // root is what everything belongs to that says nothing
	}
	return &ignID{id}
}
