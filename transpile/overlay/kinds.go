package overlay

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Kind of a document.
type Kind string

const (
	// Butane is a plain Butane document of any variant.
	Butane Kind = "Butane"
	// MachineConfig is a whole MachineConfig object.
	MachineConfig Kind = "MachineConfig"
	// Ignition is an Ignition config in a *.ign file, of any version.
	Ignition Kind = "Ignition"
	// KubeletConfiguration is the kubelet's own configuration file, apiVersion kubelet.config.k8s.io/v1beta1.
	KubeletConfiguration Kind = "KubeletConfiguration"
	// KubeletConfig is a whole KubeletConfig object, apiVersion machineconfiguration.openshift.io/v1.
	KubeletConfig Kind = "KubeletConfig"
	// ContainerRuntimeConfig is a whole ContainerRuntimeConfig object, apiVersion machineconfiguration.openshift.io/v1.
	ContainerRuntimeConfig Kind = "ContainerRuntimeConfig"
	// SSHKeys is a whole SSHKeys object, apiVersion bunsen.dev/v1alpha1.
	SSHKeys Kind = "SSHKeys"
)

// list is how a patch merges one list: by the key of its items, or as a union of plain strings where key is empty.
type list struct {
	path string
	key  string
}

// hiddenKey stands in for the key of lists whose items may repeat it: kustomize would drop the second of two.
const hiddenKey = "__bunsen_key"

// mergeKey is the field that kustomize compares.
func (l list) mergeKey() string {
	if l.key == "local" {
		return hiddenKey
	}
	return l.key
}

// about is what we know of a kind.
type about struct {
	kind Kind
	// group and version under which kustomize sees it.
	group, version string
	// plain documents are no objects: they are wrapped, and what they say is the object's spec.
	plain bool
	// under is the field that lists, shapes and patches are about; empty is the whole object.
	under string
	// lists that patches merge into; any other list is replaced as a whole.
	lists []list
}

// kinds are all documents that there are.
var kinds = []about{
	{Butane, "butane.bunsen.dev", "v1alpha1", true, "spec", butaneLists},
	{MachineConfig, "machineconfiguration.openshift.io", "v1", false, "spec", within("config.", ignitionLists)},
	{Ignition, "ignition.bunsen.dev", "v1alpha1", true, "spec", ignitionLists},
	{KubeletConfiguration, "kubelet.config.k8s.io", "v1beta1", false, "", nil},
	{KubeletConfig, "machineconfiguration.openshift.io", "v1", false, "spec", nil},
	{ContainerRuntimeConfig, "machineconfiguration.openshift.io", "v1", false, "spec", nil},
	{SSHKeys, "bunsen.dev", "v1alpha1", false, "spec", sshLists},
}

// butaneLists are the lists of a Butane document.
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

// ignitionLists are those of Ignition.
var ignitionLists = []list{
	{"storage.files", "path"},
	{"storage.directories", "path"},
	{"storage.links", "path"},
	{"storage.disks", "device"},
	{"storage.raid", "name"},
	{"storage.filesystems", "device"},
	{"storage.luks", "name"},
	{"systemd.units", "name"},
	{"systemd.units.dropins", "name"},
	{"passwd.users", "name"},
	{"passwd.users.sshAuthorizedKeys", ""},
	{"passwd.groups", "name"},
}

// sshLists are those of SSHKeys.
var sshLists = []list{
	{"users", "name"},
	{"users.keys", ""},
	{"keys", ""},
}

func within(prefix string, lists []list) []list {
	out := make([]list, len(lists))
	for i, l := range lists {
		out[i] = list{prefix + l.path, l.key}
	}
	return out
}

func (k Kind) about() (about, bool) {
	for _, a := range kinds {
		if a.kind == k {
			return a, true
		}
	}
	return about{}, false
}

// kindOf finds the kind of an object by what it says it is.
func kindOf(root *yaml.Node) (about, bool) {
	a, ok := Kind(scalarAt(root, "kind")).about()
	return a, ok && !a.plain && scalarAt(root, "apiVersion") == a.group+"/"+a.version
}

// content is the part of an object that lists and shapes are about.
func (a about) content(root *yaml.Node) *yaml.Node {
	if a.under == "" {
		return root
	}
	_, n := field(root, a.under)
	return n
}

// kindNames lists all kinds for a message.
func kindNames() string {
	names := make([]string, len(kinds))
	for i, a := range kinds {
		names[i] = string(a.kind)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// verbatim are the keys whose values Butane reads as numbers or booleans. Every other plain scalar that YAML would
// take for a number, boolean or date is quoted before kustomize sees it, so that `inline: 0644` stays that text.
var verbatim = setOf("dir_mode file_mode gid http_response_headers http_total id mode number size_mib spares start_mib threshold uid " +
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
	defs := map[string]*node{}
	for _, a := range kinds {
		defs["bunsen."+string(a.kind)] = a.schema()
	}
	b, err := json.Marshal(map[string]map[string]*node{"definitions": defs})
	if err != nil {
		return nil, fmt.Errorf("writing the schema of merge keys: %w", err)
	}
	return b, nil
}

func object() *node { return &node{Type: "object", Properties: map[string]*node{}} }

func (a about) schema() *node {
	root := object()
	root.GVK = []gvk{{a.group, a.version, string(a.kind)}}
	content := root
	if a.under != "" {
		content = object()
		root.Properties[a.under] = content
	}
	for _, l := range a.lists {
		at := content
		words := strings.Split(l.path, ".")
		for i, w := range words {
			next := at.Properties[w]
			if next == nil {
				next = object()
				at.Properties[w] = next
			}
			switch last := i == len(words)-1; {
			case last:
				*next = node{Type: "array", Strategy: "merge", Key: l.mergeKey(), Items: &node{Type: "string"}}
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
