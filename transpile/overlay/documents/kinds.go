package documents

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Kind is the kind of a document.
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
	// ImageDigestMirrorSet is a whole ImageDigestMirrorSet object, apiVersion config.openshift.io/v1.
	ImageDigestMirrorSet Kind = "ImageDigestMirrorSet"
	// ImageTagMirrorSet is a whole ImageTagMirrorSet object, apiVersion config.openshift.io/v1.
	ImageTagMirrorSet Kind = "ImageTagMirrorSet"
	// ImageContentSourcePolicy is a whole ImageContentSourcePolicy object, apiVersion operator.openshift.io/v1alpha1.
	ImageContentSourcePolicy Kind = "ImageContentSourcePolicy"
	// ClusterImagePolicy is a whole ClusterImagePolicy object, apiVersion config.openshift.io/v1.
	ClusterImagePolicy Kind = "ClusterImagePolicy"
	// ImagePolicy is a whole ImagePolicy object, apiVersion config.openshift.io/v1.
	ImagePolicy Kind = "ImagePolicy"
	// SSHKeys is a whole SSHKeys object, apiVersion bunsen.dev/v1alpha1.
	SSHKeys Kind = "SSHKeys"
)

// List describes how a patch merges one list: by the key of its items, or as a union of plain strings if the key is
// empty.
type List struct {
	Path string
	Key  string
	// IsOrdered is true for a union in which the last of several items counts. The items of a patch come last.
	IsOrdered bool
}

// MergeKey returns the field whose value kustomize compares to merge two items of the list.
func (l List) MergeKey() string {
	if l.Key == "local" {
		return HiddenKey
	}
	return l.Key
}

// Info describes a kind of document.
type Info struct {
	Kind Kind
	// Group and Version are those of the object that kustomize receives.
	Group, Version string
	// Wrapped is true for a document that is not a Kubernetes object. While kustomize patches such a document, the
	// document is the spec of an object.
	Wrapped bool
	// Section is the field of the object that contains the config, with the lists that patches merge. Section is empty
	// if the whole object is the config.
	Section string
	// Lists are the lists that patches merge. A patch replaces any other list as a whole, and what that removes is
	// reported.
	Lists []List
}

// configGroup is the API group of OpenShift's objects about images.
const configGroup = "config.openshift.io"

// ReadsRuntime reports whether documents of the kind are for the container runtimes that an annotation names.
func (k Kind) ReadsRuntime() bool { return k == ContainerRuntimeConfig || k.IsAboutRegistries() }

// IsAboutRegistries reports whether documents of the kind say where images come from. All such documents of a pool
// become one fragment.
func (k Kind) IsAboutRegistries() bool {
	return k == ImageDigestMirrorSet || k == ImageTagMirrorSet || k == ImageContentSourcePolicy ||
		k == ClusterImagePolicy || k == ImagePolicy
}

// HasGeneratedName reports whether the kind alone decides the name of a document's fragment.
func (k Kind) HasGeneratedName() bool {
	return k == KubeletConfig || k == KubeletConfiguration || k == SSHKeys || k.ReadsRuntime()
}

// kinds are all kinds of documents.
var kinds = []Info{
	{Butane, "butane.bunsen.dev", "v1alpha1", true, "spec", butaneLists},
	{MachineConfig, "machineconfiguration.openshift.io", "v1", false, "spec", machineConfigLists},
	{Ignition, "ignition.bunsen.dev", "v1alpha1", true, "spec", ignitionLists},
	{KubeletConfiguration, "kubelet.config.k8s.io", "v1beta1", false, "", nil},
	{KubeletConfig, "machineconfiguration.openshift.io", "v1", false, "spec", nil},
	{ContainerRuntimeConfig, "machineconfiguration.openshift.io", "v1", false, "spec", nil},
	{ImageDigestMirrorSet, configGroup, "v1", false, "spec", []List{{Path: "imageDigestMirrors", Key: "source"}}},
	{ImageTagMirrorSet, configGroup, "v1", false, "spec", []List{{Path: "imageTagMirrors", Key: "source"}}},
	{
		ImageContentSourcePolicy, "operator.openshift.io", "v1alpha1", false, "spec",
		[]List{{Path: "repositoryDigestMirrors", Key: "source"}},
	},
	{ClusterImagePolicy, configGroup, "v1", false, "spec", []List{{Path: "scopes"}}},
	{ImagePolicy, configGroup, "v1", false, "spec", []List{{Path: "scopes"}}},
	{SSHKeys, "bunsen.dev", "v1alpha1", false, "spec", sshLists},
}

// butaneLists are the lists of a Butane document.
var butaneLists = []List{
	// A path may occur only once in the first three lists together: checkPaths refuses a second occurrence.
	{Path: "storage.files", Key: "path"},
	{Path: "storage.directories", Key: "path"},
	{Path: "storage.links", Key: "path"},
	{Path: "storage.trees", Key: "local"},
	{Path: "storage.disks", Key: "device"},
	{Path: "storage.raid", Key: "name"},
	{Path: "storage.filesystems", Key: "device"},
	{Path: "storage.luks", Key: "name"},
	{Path: "systemd.units", Key: "name"},
	{Path: "systemd.units.dropins", Key: "name"},
	{Path: "passwd.users", Key: "name"},
	{Path: "passwd.users.ssh_authorized_keys"},
	{Path: "passwd.users.groups"},
	{Path: "passwd.groups", Key: "name"},
	{Path: "kernel_arguments.should_exist", IsOrdered: true},
	{Path: "kernel_arguments.should_not_exist"},
	{Path: "openshift.kernel_arguments", IsOrdered: true},
	{Path: "openshift.extensions"},
}

// ignitionLists are the lists of an Ignition config.
var ignitionLists = []List{
	{Path: "storage.files", Key: "path"},
	{Path: "storage.directories", Key: "path"},
	{Path: "storage.links", Key: "path"},
	{Path: "storage.disks", Key: "device"},
	{Path: "storage.raid", Key: "name"},
	{Path: "storage.filesystems", Key: "device"},
	{Path: "storage.luks", Key: "name"},
	{Path: "systemd.units", Key: "name"},
	{Path: "systemd.units.dropins", Key: "name"},
	{Path: "passwd.users", Key: "name"},
	{Path: "passwd.users.sshAuthorizedKeys"},
	{Path: "passwd.users.groups"},
	{Path: "passwd.groups", Key: "name"},
	{Path: "kernelArguments.shouldExist", IsOrdered: true},
	{Path: "kernelArguments.shouldNotExist"},
}

// machineConfigLists are the lists of a MachineConfig.
var machineConfigLists = append(within("config.", ignitionLists),
	List{Path: "kernelArguments", IsOrdered: true}, List{Path: "extensions"})

// sshLists are the lists of an SSHKeys document.
var sshLists = []List{
	{Path: "users", Key: "name"},
	{Path: "users.keys"},
	{Path: "keys"},
}

// extensions are the extensions of files that contain one plain Butane document.
var extensions = []string{".bu", ".butane", ".fcc"}

// IsButane reports whether the name of a file has an extension of Butane documents.
func IsButane(file string) bool { return slices.Contains(extensions, path.Ext(file)) }

func within(prefix string, lists []List) []List {
	out := make([]List, len(lists))
	for i, l := range lists {
		out[i] = List{prefix + l.Path, l.Key, l.IsOrdered}
	}
	return out
}

// Info returns the description of the kind. Info returns false for an unknown kind.
func (k Kind) Info() (Info, bool) {
	for _, info := range kinds {
		if info.Kind == k {
			return info, true
		}
	}
	return Info{}, false
}

// KindOf finds the kind of an object by its apiVersion and kind.
func KindOf(root *yaml.Node) (Info, bool) {
	info, ok := Kind(Scalar(root, "kind")).Info()
	return info, ok && !info.Wrapped && Scalar(root, "apiVersion") == info.Group+"/"+info.Version
}

// Content returns the part of an object that contains the config, with the lists that patches merge.
func (k Info) Content(root *yaml.Node) *yaml.Node {
	if k.Section == "" {
		return root
	}
	_, n := Field(root, k.Section)
	return n
}

// Wrap puts a document, or a part of one, into an object, so that kustomize can patch it.
func (k Info) Wrap(name string, content *yaml.Node) *yaml.Node {
	return Mapping(Str("apiVersion"), Str(k.Group+"/"+k.Version), Str("kind"),
		Str(string(k.Kind)),
		Str("metadata"), Mapping(Str("name"), Str(name)), Str(k.Section),
		content)
}

// KindNames lists all kinds for a message.
func KindNames() string {
	names := make([]string, len(kinds))
	for i, a := range kinds {
		names[i] = string(a.Kind)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// typedKeys are the keys whose values Butane reads as numbers or booleans, and Bunsen's own key `template`.
// QuoteScalars quotes every other scalar that YAML would read as a number, boolean or date. So kustomize does not
// change the text of `inline: 0644`.
var typedKeys = setOf("dir_mode file_mode gid http_response_headers http_total id mode number size_mib spares " +
	"start_mib threshold uid " +
	"discard enabled fips hard mask needs_network no_create_home no_log_init no_user_group overwrite resize " +
	"should_exist " +
	"system template tpm2 wipe_filesystem wipe_partition_entry wipe_table wipe_volume with_mount_unit")

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

// Schema returns the OpenAPI schema with the merge keys for kustomize. kustomize merges all other fields as plain maps.
func Schema() ([]byte, error) {
	defs := map[string]*node{}
	for _, k := range kinds {
		defs["bunsen."+string(k.Kind)] = k.schema()
	}
	b, err := json.Marshal(map[string]map[string]*node{"definitions": defs})
	if err != nil {
		return nil, fmt.Errorf("writing the schema of merge keys: %w", err)
	}
	return b, nil
}

func object() *node { return &node{Type: "object", Properties: map[string]*node{}} }

func (k Info) schema() *node {
	root := object()
	root.GVK = []gvk{{k.Group, k.Version, string(k.Kind)}}
	content := root
	if k.Section != "" {
		content = object()
		root.Properties[k.Section] = content
	}
	for _, l := range k.Lists {
		at := content
		words := strings.Split(l.Path, ".")
		for i, w := range words {
			next := at.Properties[w]
			if next == nil {
				next = object()
				at.Properties[w] = next
			}
			switch last := i == len(words)-1; {
			case last:
				*next = node{Type: "array", Strategy: "merge", Key: l.MergeKey(), Items: &node{Type: "string"}}
				if l.Key != "" {
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
