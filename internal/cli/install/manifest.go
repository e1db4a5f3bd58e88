package install

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// The namespaces and the names of the parts in config/.
const (
	Namespace        = "bunsen-system"
	SourcesNamespace = "bunsen-sources"
	// NotificationsNamespace has the Secrets of Notifications.
	NotificationsNamespace = "bunsen-notifications"
	Controller             = "machine-config-controller"
	Server                 = "machine-config-server"
	Daemon                 = "machine-config-daemon"
	// Console is a part that an installation has only if a user wants it. ConsoleImage is its image, and
	// ConsoleCertificate is the Secret with its certificate, which the user creates.
	Console            = "bunsen-console"
	ConsoleImage       = "bunsen"
	ConsoleCertificate = "bunsen-console-tls"
)

// placeholderRegistry: this registry does not exist.
const placeholderRegistry = "image.invalid/"

// Parts are the programs that run on a cluster, except for the console.
var Parts = []string{Controller, Server, Daemon}

// Options are the choices of a user for an installation.
type Options struct {
	// Images has the reference of each part's image.
	Images map[string]string
	// Console are the hosts that browsers open for the console, with the port unless it is 443; none: no console.
	Console []string
	// Hostnames are further names and addresses at which new machines reach the server.
	Hostnames []string
	// JoinServer is the URL of the API server for new machines; empty if they join in another way.
	JoinServer string
	Without    []string
	// ControlPlaneNodes is the number of nodes on which the server's replicas can run.
	ControlPlaneNodes int
}

// Check returns every error in the options.
func (o Options) Check() error {
	var problems []error
	for _, part := range o.Without {
		if part != Server && part != Daemon {
			problems = append(problems, fmt.Errorf("--without %s: want %s or %s", part, Server, Daemon))
		}
	}
	for _, part := range o.images() {
		image := o.Images[part]
		switch {
		case image == "":
			problems = append(problems, fmt.Errorf("there is no image of %s: name the registry with --registry and "+
				"--tag, or the file images.json of `make images` with --images", part))
		case strings.HasPrefix(image, placeholderRegistry):
			problems = append(problems, fmt.Errorf("the image %q of %s is a placeholder: push the images with `make "+
				"images PUSH=REPOSITORY`, and use its dist/images.json, or set --registry and --tag", image, part))
		case strings.ContainsAny(image, " \t\n\"'") || !strings.ContainsAny(path.Base(image), ":@"):
			problems = append(problems, fmt.Errorf("the image %q of %s has neither a tag nor a digest, or has "+
				"characters that no reference has", image, part))
		}
	}
	if o.JoinServer != "" && !strings.HasPrefix(o.JoinServer, "https://") {
		problems = append(problems, fmt.Errorf("--join-server %q: want a URL that begins with https://", o.JoinServer))
	}
	return errors.Join(append(problems, o.checkNames()...)...)
}

func (o Options) checkNames() (problems []error) {
	for _, name := range o.Hostnames {
		if name == "" || strings.ContainsAny(name, ", \t\n/") {
			problems = append(problems, fmt.Errorf("--hostnames %q: want a host name or an IP address", name))
		}
	}
	for _, host := range o.Console {
		if host == "" || strings.ContainsAny(host, ", \t\n/@*") {
			problems = append(problems,
				fmt.Errorf("--console %q: want a host that browsers open, such as console.example.org or "+
					"localhost:8443", host))
		}
	}
	return problems
}

func (o Options) images() []string {
	names := slices.DeleteFunc(slices.Clone(Parts), func(part string) bool { return slices.Contains(o.Without, part) })
	if len(o.Console) > 0 {
		names = append(names, ConsoleImage)
	}
	return names
}

// Manifest returns the objects to apply, in their order: namespaces and CRDs first.
func Manifest(config fs.FS, o Options) ([]*unstructured.Unstructured, error) {
	disk := filesys.MakeFsInMemory()
	err := fs.WalkDir(config, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(config, p)
		if err != nil {
			return err
		}
		return disk.WriteFile(path.Join("/config", p), content)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	overlay, err := yaml.Marshal(overlayOf(o))
	if err != nil {
		return nil, fmt.Errorf("writing the overlay: %w", err)
	}
	if err := disk.WriteFile("/overlay/kustomization.yaml", overlay); err != nil {
		return nil, fmt.Errorf("writing the overlay: %w", err)
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	built, err := krusty.MakeKustomizer(options).Run(disk, "/overlay")
	if err != nil {
		return nil, fmt.Errorf("building the manifests: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, r := range built.Resources() {
		// Objects are converted through JSON, because an unstructured object must not contain the type int.
		raw, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", r.GetKind(), r.GetName(), err)
		}
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", r.GetKind(), r.GetName(), err)
		}
		all = append(all, &object)
	}
	return all, nil
}

func overlayOf(o Options) types.Kustomization {
	k := types.Kustomization{TypeMeta: types.TypeMeta{
		APIVersion: types.KustomizationVersion,
		Kind:       types.KustomizationKind,
	}}
	for _, dir := range []string{"namespace", "crd", "rbac"} {
		k.Resources = append(k.Resources, "../config/"+dir)
	}
	for part, dir := range map[string]string{Controller: "controller", Server: "server", Daemon: "daemon"} {
		if slices.Contains(o.Without, part) {
			continue
		}
		k.Resources = append(k.Resources, "../config/"+dir)
		k.Images = append(k.Images, imageOf(part, o.Images[part]))
	}
	slices.Sort(k.Resources)
	if len(o.Console) > 0 {
		k.Components = append(k.Components, "../config/components/console")
		k.Images = append(k.Images, imageOf(ConsoleImage, o.Images[ConsoleImage]))
		hosts := types.ConfigMapArgs{}
		hosts.Name, hosts.Namespace, hosts.LiteralSources = Console, Namespace,
			[]string{"hosts=" + strings.Join(o.Console, ",")}
		hosts.Options = &types.GeneratorOptions{Labels: map[string]string{
			"app.kubernetes.io/part-of":   "bunsen",
			"app.kubernetes.io/component": "settings",
		}}
		k.ConfigMapGenerator = append(k.ConfigMapGenerator, hosts)
	}
	if !slices.Contains(o.Without, Server) && !slices.Contains(o.Without, Daemon) {
		k.Components = append(k.Components, "../config/components/serve-daemon")
	}
	if slices.Contains(o.Without, Server) {
		k.Components = append(k.Components, "../config/components/nodes-read-configs")
		return k
	}
	if o.ControlPlaneNodes == 1 {
		k.Components = append(k.Components, "../config/components/single-control-plane")
	}
	settings := types.ConfigMapArgs{}
	settings.Name, settings.Namespace, settings.Behavior = Server, Namespace, "merge"
	settings.LiteralSources = []string{"hostnames=" + strings.Join(o.Hostnames, ","), "join-server=" + o.JoinServer}
	k.ConfigMapGenerator = append(k.ConfigMapGenerator, settings)
	return k
}

func imageOf(part, reference string) types.Image {
	image := types.Image{Name: placeholderRegistry + part}
	if name, digest, ok := strings.Cut(reference, "@"); ok {
		image.NewName, image.Digest = name, digest
		return image
	}
	i := strings.LastIndex(reference, ":")
	image.NewName, image.NewTag = reference[:i], reference[i+1:]
	return image
}

// Everything returns every object that an installation can have, whatever its options. The images are placeholders.
func Everything(config fs.FS) ([]*unstructured.Unstructured, error) {
	o := Options{Images: map[string]string{}, ControlPlaneNodes: 3, Console: []string{"localhost"}}
	for _, part := range o.images() {
		o.Images[part] = placeholderRegistry + part + ":none"
	}
	all, err := Manifest(config, o)
	if err != nil {
		return nil, err
	}
	o.Without = []string{Server}
	more, err := Manifest(config, o)
	if err != nil {
		return nil, err
	}
	return append(all, Missing(more, all)...), nil
}

// Missing returns the objects that a list does not have.
func Missing(objects, list []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(list, func(other *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == other.GroupVersionKind() && o.GetNamespace() == other.GetNamespace() &&
				o.GetName() == other.GetName()
		})
	})
}

// Phases splits objects into two groups: namespaces and CRDs, which the API server needs first, and all other objects.
func Phases(all []*unstructured.Unstructured) (first, rest []*unstructured.Unstructured) {
	for _, o := range all {
		if kind := o.GetKind(); kind == "Namespace" || kind == "CustomResourceDefinition" {
			first = append(first, o)
			continue
		}
		rest = append(rest, o)
	}
	return first, rest
}

// RemovalPhases returns the objects that an uninstallation deletes, in their order: programs first, and permissions
// last. Everything includes namespaces and CRDs, whose deletion also deletes the pools, the configs, the tokens and the
// server's CA.
func RemovalPhases(all []*unstructured.Unstructured, everything bool) []*unstructured.Unstructured {
	acting := func(o *unstructured.Unstructured) bool {
		return slices.Contains([]string{"DaemonSet", "Deployment", "PodDisruptionBudget"}, o.GetKind())
	}
	first, rest := Phases(all)
	var out []*unstructured.Unstructured
	for _, pass := range []bool{true, false} {
		for _, o := range rest {
			if acting(o) == pass {
				out = append(out, o)
			}
		}
	}
	if everything {
		slices.Reverse(first) // CRDs are deleted before the namespaces, which come first in a manifest.
		out = append(out, first...)
	}
	return out
}
