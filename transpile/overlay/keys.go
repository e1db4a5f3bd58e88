package overlay

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// The kind under which kustomize sees a Butane document.
const (
	group      = "butane.bunsen.dev"
	version    = "v1alpha1"
	butaneKind = "Butane"

	machineConfigGroup   = "machineconfiguration.openshift.io"
	machineConfigVersion = "v1"
	machineConfigKind    = "MachineConfig"
)

// list is how a patch merges one list: by the key of its items, or as a union of plain strings where key is empty.
type list struct {
	path string
	key  string
}

// butaneLists are the lists of a Butane document that patches merge into; any other list is replaced as a whole.
var butaneLists = []list{
	// The first three share one space of paths, see checkPaths.
	{"storage.files", "path"},
	{"storage.directories", "path"},
	{"storage.links", "path"},
	{"storage.trees", "local"},
	{"storage.disks", "device"},
	{"storage.raid", "name"},
	{"storage.filesystems", "device"},
	{"storage.luks", "name"},
	{"systemd.units", "name"},
	{"systemd.units.dropins", "name"},
	{"passwd.users", "name"},
	{"passwd.users.ssh_authorized_keys", ""},
	{"passwd.users.groups", ""},
	{"passwd.groups", "name"},
	{"kernel_arguments.should_exist", ""},
	{"kernel_arguments.should_not_exist", ""},
	{"openshift.kernel_arguments", ""},
	{"openshift.extensions", ""},
}

// machineConfigLists are the same for the spec of a MachineConfig.
var machineConfigLists = []list{
	{"config.storage.files", "path"},
	{"config.storage.directories", "path"},
	{"config.storage.links", "path"},
	{"config.storage.disks", "device"},
	{"config.storage.raid", "name"},
	{"config.storage.filesystems", "device"},
	{"config.storage.luks", "name"},
	{"config.systemd.units", "name"},
	{"config.systemd.units.dropins", "name"},
	{"config.passwd.users", "name"},
	{"config.passwd.users.sshAuthorizedKeys", ""},
	{"config.passwd.groups", "name"},
}

// verbatim are the keys whose values Butane reads as numbers or booleans. Every other plain scalar that YAML would
// take for a number, boolean or date is quoted before kustomize sees it, so that `inline: 0644` stays that text.
var verbatim = setOf("dir_mode file_mode gid http_total id mode number size_mib spares start_mib threshold uid " +
	"discard enabled fips hard mask needs_network no_create_home no_log_init no_user_group overwrite resize should_exist " +
	"system tpm2 wipe_filesystem wipe_partition_entry wipe_table wipe_volume with_mount_unit")

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// node is one level of an OpenAPI schema.
type node struct {
	Type       string           `json:"type"`
	Properties map[string]*node `json:"properties,omitempty"`
	Items      *node            `json:"items,omitempty"`
	Strategy   string           `json:"x-kubernetes-patch-strategy,omitempty"`
	Key        string           `json:"x-kubernetes-patch-merge-key,omitempty"`
	GVK        []gvk            `json:"x-kubernetes-group-version-kind,omitempty"`
}

type gvk struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// schema names the merge keys to kustomize; everything that it does not name merges as plain maps.
func schema() ([]byte, error) {
	defs := map[string]*node{
		"bunsen.Butane":        kindSchema(gvk{group, version, butaneKind}, butaneLists),
		"bunsen.MachineConfig": kindSchema(gvk{machineConfigGroup, machineConfigVersion, machineConfigKind}, machineConfigLists),
	}
	b, err := json.Marshal(map[string]map[string]*node{"definitions": defs})
	if err != nil {
		return nil, fmt.Errorf("writing the schema of merge keys: %w", err)
	}
	return b, nil
}

func object() *node { return &node{Type: "object", Properties: map[string]*node{}} }

func kindSchema(id gvk, lists []list) *node {
	root, spec := object(), object()
	root.GVK = []gvk{id}
	root.Properties["spec"] = spec
	for _, l := range lists {
		at := spec
		words := strings.Split(l.path, ".")
		for i, w := range words {
			next := at.Properties[w]
			if next == nil {
				next = object()
				at.Properties[w] = next
			}
			switch last := i == len(words)-1; {
			case last:
				*next = node{Type: "array", Strategy: "merge", Key: l.key, Items: &node{Type: "string"}}
				if l.key != "" {
					next.Items = object()
				}
			case next.Items != nil:
				next = next.Items
			}
			at = next
		}
	}
	return root
}

// checkLists finds items of keyed lists that stand twice and, in a patch, items without their key: kustomize would
// drop the one silently, and empty the whole list for the other.
func (t text) checkLists(root *yaml.Node, lists []list, patch bool) []origin.Finding {
	var out []origin.Finding
	for _, l := range lists {
		if l.key == "" {
			continue
		}
		for _, n := range reach(root, strings.Split(l.path, ".")) {
			if n.Kind == yaml.SequenceNode {
				out = append(out, t.checkList(n, l, patch)...)
			}
		}
	}
	return out
}

func (t text) checkList(n *yaml.Node, l list, patch bool) []origin.Finding {
	var out []origin.Finding
	seen := map[string]*yaml.Node{}
	for _, item := range n.Content {
		_, key := field(item, l.key)
		_, directive := field(item, "$patch")
		switch {
		case key == nil && directive != nil && directive.Value != "delete":
		case key == nil && patch:
			out = append(out, fatal(t.pos(item), "patch-key", "an item of %s in a patch needs its `%s`, which says what it patches; without one kustomize would empty the whole list", l.path, l.key))
		case key == nil:
		case seen[key.Value] != nil:
			out = append(out, fatal(t.pos(key), "duplicate-item", "%s %q stands twice in %s: in line %d and in line %d; keep one", l.key, key.Value, l.path, seen[key.Value].Line+t.offset, key.Line+t.offset))
		default:
			seen[key.Value] = key
		}
	}
	return out
}

// checkPaths finds a path that two kinds of one document claim: a file, a directory, a link.
func (t text) checkPaths(root *yaml.Node) []origin.Finding {
	var out []origin.Finding
	seen := map[string]list{}
	lines := map[string]int{}
	for _, l := range butaneLists[:3] {
		for _, key := range reach(root, strings.Split(l.path+".path", ".")) {
			if other, twice := seen[key.Value]; twice && other != l {
				out = append(out, fatal(t.pos(key), "duplicate-item", "path %q stands in %s in line %d and in %s in line %d; keep one", key.Value, other.path, lines[key.Value], l.path, key.Line+t.offset))
			}
			seen[key.Value], lines[key.Value] = l, key.Line+t.offset
		}
	}
	return out
}

// reach returns what stands below a chain of keys, through every item of lists on the way.
func reach(n *yaml.Node, keys []string) []*yaml.Node {
	if len(keys) == 0 {
		return []*yaml.Node{n}
	}
	if n.Kind == yaml.SequenceNode {
		var out []*yaml.Node
		for _, c := range n.Content {
			out = append(out, reach(c, keys)...)
		}
		return out
	}
	_, v := field(n, keys[0])
	if v == nil {
		return nil
	}
	return reach(v, keys[1:])
}
