package schema

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/config"
	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// kind is a kind of object that files of a repository, or of an installation, have.
type kind struct {
	apiVersion, name string
	// crd is its file in config/crd; goType has it instead for kinds without a CRD there.
	crd    string
	goType reflect.Type
}

const machineConfiguration = "machineconfiguration.openshift.io/v1"

// all are the kinds of cluster/, those of documents, and those that administrators apply to a cluster.
var all = []kind{
	{apiVersion: "bunsen.dev/v1alpha1", name: "DriftPolicy", crd: "bunsen.dev_driftpolicies.yaml"},
	{apiVersion: "bunsen.dev/v1alpha1", name: "GitSource", crd: "bunsen.dev_gitsources.yaml"},
	{apiVersion: "bunsen.dev/v1alpha1", name: "Notification", crd: "bunsen.dev_notifications.yaml"},
	{apiVersion: "bunsen.dev/v1alpha1", name: "ProvisioningToken", crd: "bunsen.dev_provisioningtokens.yaml"},
	{apiVersion: "bunsen.dev/v1alpha1", name: "RolloutPolicy", crd: "bunsen.dev_rolloutpolicies.yaml"},
	{apiVersion: machineConfiguration, name: "MachineConfigPool", crd: "openshift_machineconfigpools.yaml"},
	{apiVersion: machineConfiguration, name: "MachineConfig", crd: "openshift_machineconfigs.yaml"},
	{apiVersion: machineConfiguration, name: "PinnedImageSet", crd: "openshift_pinnedimagesets.yaml"},
	{
		apiVersion: "operator.openshift.io/v1", name: "MachineConfiguration",
		crd: "openshift_machineconfigurations.yaml",
	},

	{apiVersion: "bunsen.dev/v1alpha1", name: "SSHKeys", goType: reflect.TypeFor[kinds.SSHKeys]()},
	{apiVersion: machineConfiguration, name: "KubeletConfig", goType: reflect.TypeFor[mcfgv1.KubeletConfig]()},
	{
		apiVersion: machineConfiguration, name: "ContainerRuntimeConfig",
		goType: reflect.TypeFor[mcfgv1.ContainerRuntimeConfig](),
	},
	{
		apiVersion: "kubelet.config.k8s.io/v1beta1", name: "KubeletConfiguration",
		goType: reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](),
	},
	{
		apiVersion: "config.openshift.io/v1", name: "ImageDigestMirrorSet",
		goType: reflect.TypeFor[configv1.ImageDigestMirrorSet](),
	},
	{
		apiVersion: "config.openshift.io/v1", name: "ImageTagMirrorSet",
		goType: reflect.TypeFor[configv1.ImageTagMirrorSet](),
	},
	{
		apiVersion: "operator.openshift.io/v1alpha1", name: "ImageContentSourcePolicy",
		goType: reflect.TypeFor[operatorv1alpha1.ImageContentSourcePolicy](),
	},
	{
		apiVersion: "config.openshift.io/v1", name: "ClusterImagePolicy",
		goType: reflect.TypeFor[configv1.ClusterImagePolicy](),
	},
	{apiVersion: "config.openshift.io/v1", name: "ImagePolicy", goType: reflect.TypeFor[configv1.ImagePolicy]()},
}

// Kind is a kind of object with the version of its API.
type Kind struct{ APIVersion, Name string }

// Kinds lists the kinds that have a schema.
func Kinds() []Kind {
	out := make([]Kind, len(all))
	for i, k := range all {
		out[i] = Kind{k.apiVersion, k.name}
	}
	return out
}

// Names lists all schemas, in lexical order: butane, butane-VARIANT-VERSION, kustomization, and each kind in lower
// case.
func Names() []string {
	out := []string{strings.TrimSuffix(butanePrefix, "-"), kustomizationName}
	for _, d := range butane.Dialects() {
		out = append(out, dialectName(d.Variant, d.Version))
	}
	for _, k := range all {
		out = append(out, strings.ToLower(k.name))
	}
	slices.Sort(out)
	return out
}

var (
	mu    sync.Mutex
	known = map[string]*Node{}
)

// Get returns a schema, which the caller must not change. It makes each schema once, when it is first asked for.
func Get(name string) (*Node, error) {
	mu.Lock()
	defer mu.Unlock()
	if n := known[name]; n != nil {
		return n, nil
	}
	n, err := create(name)
	if err != nil {
		return nil, err
	}
	n.Schema = Draft
	known[name] = n
	return n, nil
}

// OfDialect returns the schema of a variant and version of Butane; nil if Bunsen does not support them.
func OfDialect(variant, version string) *Node {
	n, err := Get(dialectName(variant, version))
	if err != nil {
		return nil
	}
	return n
}

// OfKind returns the schema of a kind; nil if it has none.
func OfKind(apiVersion, name string) *Node {
	for _, k := range all {
		if k.name == name && k.apiVersion == apiVersion {
			if n, err := Get(strings.ToLower(name)); err == nil {
				return n
			}
		}
	}
	return nil
}

func create(name string) (*Node, error) {
	switch name {
	case strings.TrimSuffix(butanePrefix, "-"):
		return anyDialect(), nil
	case kustomizationName:
		return kustomization(), nil
	}
	for _, d := range butane.Dialects() {
		if dialectName(d.Variant, d.Version) == name {
			n := ofDialect(d)
			n.Title = "A Butane document of variant " + d.Variant + ", version " + d.Version
			return n, nil
		}
	}
	for _, k := range all {
		if strings.ToLower(k.name) == name {
			return k.schema()
		}
	}
	return nil, fmt.Errorf("there is no schema %q: `bunsen schema` lists them", name)
}

func (k kind) schema() (n *Node, err error) {
	if k.crd != "" {
		n, err = k.ofCRD()
	} else {
		n = reader{tag: "json"}.of(k.goType, "", nil)
	}
	if err != nil {
		return nil, err
	}
	n.Title = k.name
	n.Properties["apiVersion"] = &Node{Type: Types{"string"}, Const: k.apiVersion}
	n.Properties["kind"] = &Node{Type: Types{"string"}, Const: k.name}
	n.Properties["metadata"] = metadata()
	delete(n.Properties, "status")
	n.Required = slices.DeleteFunc(n.Required, func(r string) bool { return r == "status" })
	for _, key := range []string{"apiVersion", "kind"} {
		n.require(key, n.Properties[key])
	}
	slices.Sort(n.Required)
	if k.name == "MachineConfig" {
		// The config is of any version of Ignition, so its schema names the keys of the present one, and refuses none.
		n.Properties["spec"].Properties["config"] = reader{tag: "json"}.of(
			reflect.TypeFor[ignition.Config](), "", nil).open()
	}
	return n, nil
}

// open allows further keys everywhere.
func (n *Node) open() *Node {
	if n == nil {
		return nil
	}
	if n.Additional != nil && n.Additional.Values == nil {
		n.Additional = nil
	}
	n.Required = nil
	n.Items.open()
	for _, key := range slices.Collect(maps.Keys(n.Properties)) {
		n.Properties[key].open()
	}
	return n
}

func (k kind) ofCRD() (*Node, error) {
	raw, err := fs.ReadFile(config.Files, "crd/"+k.crd)
	if err != nil {
		return nil, fmt.Errorf("reading the CRD of %s: %w", k.name, err)
	}
	asJSON, err := yaml.YAMLToJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the CRD of %s: %w", k.name, err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema *Node `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := json.Unmarshal(asJSON, &crd); err != nil {
		return nil, fmt.Errorf("reading the CRD of %s: %w", k.name, err)
	}
	_, version, _ := strings.Cut(k.apiVersion, "/")
	for _, v := range crd.Spec.Versions {
		if v.Name == version && v.Schema.OpenAPIV3Schema != nil {
			v.Schema.OpenAPIV3Schema.clean()
			return v.Schema.OpenAPIV3Schema, nil
		}
	}
	return nil, fmt.Errorf("reading the CRD of %s: it has no version %s", k.name, version)
}

const kustomizationName = "kustomization"

// kustomization has the fields that Bunsen reads of a kustomization.
func kustomization() *Node {
	list := func(of *Node, about string) *Node {
		return &Node{Type: Types{"array"}, Items: of, Description: about}
	}
	object := func(keys map[string]*Node, about string) *Node {
		return &Node{Type: Types{"object"}, Properties: keys, Additional: &Additional{}, Description: about}
	}
	word := func(about string) *Node { return &Node{Type: Types{"string"}, Description: about} }
	selector := func(about string) *Node {
		return object(map[string]*Node{
			"group": text(), "version": text(), "kind": word("The kind of the document, such as Butane."),
			"name": word("The name of the document: that of its file without the extension."), "namespace": text(),
			"labelSelector": text(), "annotationSelector": text(),
		}, about)
	}
	replacement := &Node{}
	return &Node{
		Title: "A kustomization of a config repository", Type: Types{"object"}, Additional: &Additional{},
		Properties: map[string]*Node{
			"apiVersion": {Type: Types{"string"}, Enum: []any{
				"kustomize.config.k8s.io/v1beta1",
				"kustomize.config.k8s.io/v1alpha1",
			}},
			"kind":       {Type: Types{"string"}, Enum: []any{"Kustomization", "Component"}},
			"metadata":   metadata(),
			"resources":  list(text(), "Documents, and directories whose documents belong to this one too."),
			"components": list(text(), "Directories of components, whose patches change these documents."),
			"patches": list(object(map[string]*Node{
				"path": word("A file with the patch."), "patch": word("The patch itself."),
				"target":  selector("Which documents the patch changes; without it, that of the patch's own name."),
				"options": {Type: Types{"object"}},
			}, ""), "Changes of documents, in order. Lists merge by path and name."),
			"replacements":      list(replacement, "Values that are copied from one document to others."),
			"namePrefix":        word("The beginning of all names of documents."),
			"nameSuffix":        word("The end of all names of documents."),
			"labels":            list(&Node{}, ""),
			"commonLabels":      texts(),
			"commonAnnotations": texts(),
			"buildMetadata":     list(text(), "Has no effect: origins are always recorded."),
			"sortOptions":       {Description: "Has no effect: documents merge in the order of their names."},
		},
	}
}
