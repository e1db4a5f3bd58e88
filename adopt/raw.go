package adopt

import (
	"bytes"
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/policy/secret"
)

// raw writes a MachineConfig as YAML.
func (a author) raw(c config, name, why string) document {
	spec := mapping()
	if c.spec.HasIgnition {
		spec.Content = append(spec.Content, key("config"), ignitionYAML(c.spec))
	}
	spec.Content = append(spec.Content, hostFields(c.spec, "kernelArguments", "kernelType").Content...)
	for _, image := range []struct{ key, value string }{{"osImageURL", c.spec.OSImageURL}, {"baseOSExtensionsContainerImage", c.spec.ExtensionsImage}} {
		if image.value != "" {
			spec.Content = append(spec.Content, key(image.key), str(image.value))
		}
	}
	root := mapping(key("apiVersion"), key(mcfgv1.GroupVersion.String()), key("kind"), key(machineConfigKind), key("metadata"), metadata(c, name), key("spec"), spec)
	d := document{config: c, file: a.exact(c, name) + ".yaml", why: []string{why}}
	a.complete(&d, root, bare(c.spec))
	return d
}

// bare finds the secrets of a config that stands in a MachineConfig as it is.
func bare(c machineconfig.Config) *draft {
	w := &draft{}
	for _, f := range c.Ignition.Storage.Files {
		if contents, err := machineconfig.Contents(f.Contents); err == nil && secret.Is(f.Path, string(contents)) {
			w.exposed = append(w.exposed, f.Path)
		}
	}
	for _, l := range c.Ignition.Storage.Luks {
		if l.KeyFile.Source != nil {
			w.exposed = append(w.exposed, "the key of "+l.Name)
		}
	}
	for _, u := range c.Ignition.Passwd.Users {
		if u.PasswordHash != nil && *u.PasswordHash != "" {
			w.hashes = append(w.hashes, u.Name)
		}
	}
	return w
}

// hostFields writes what is not Ignition's, but for images, with the words that the format has for it.
func hostFields(c machineconfig.Config, kernelArguments, kernelType string) *yaml.Node {
	n := mapping()
	if len(c.KernelArguments) > 0 {
		n.Content = append(n.Content, key(kernelArguments), list(c.KernelArguments))
	}
	if c.KernelType != "" && c.KernelType != "default" {
		n.Content = append(n.Content, key(kernelType), str(c.KernelType))
	}
	if len(c.Extensions) > 0 {
		n.Content = append(n.Content, key("extensions"), list(c.Extensions))
	}
	if c.FIPS {
		n.Content = append(n.Content, key("fips"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
	return n
}

// ignitionYAML writes an Ignition config in its own words.
func ignitionYAML(c machineconfig.Config) *yaml.Node {
	v := ignitionOf(c)
	head, ok := v["ignition"].(map[string]any)
	if !ok {
		head = map[string]any{}
		v["ignition"] = head
	}
	head["version"] = machineconfig.Version
	return verbatim(v)
}

// verbatim writes JSON values with their own keys. Numbers are as encoding/json or as Kubernetes reads them.
func verbatim(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := mapping()
		for _, k := range keysOf(v) {
			n.Content = append(n.Content, key(k), verbatim(v[k]))
		}
		return n
	case []any:
		n := sequence()
		for _, item := range v {
			n.Content = append(n.Content, verbatim(item))
		}
		return n
	case string:
		if n, ok := block(v); ok && strings.Contains(v, "\n") {
			return n
		}
		return str(v)
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}
	}
}

// kustomization is the file, but for its extension, that lists a directory's documents.
const kustomization = "kustomization"

// exact is the file's name, without extension, of a document that names itself: its name, unless a document that takes
// its name from its file needs that one.
func (a author) exact(c config, name string) string {
	file := name
	if len(file) > maxSlug {
		file = slug(file)
	}
	for a.taken(c.pool, file) {
		file += "-named"
	}
	a.exacts[c.pool+"/"+file] = true
	return file
}

// taken tells whether a document of the pool cannot have a file of this name: another one has, or it means something else.
func (a author) taken(pool, file string) bool {
	return a.stems[pool+"/"+file] || a.exacts[pool+"/"+file] || file == kustomization
}

// aside is an object as it was, for a person to look at.
func aside(o object, why string) []byte {
	content := map[string]any{}
	for k, v := range o.content {
		if k != "status" {
			content[k] = v
		}
	}
	if meta, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = ownMetadata(meta)
	}
	text, err := sigsyaml.Marshal(content)
	if err != nil {
		text = fmt.Appendf(nil, "# It cannot be written as YAML: %s\n", safetext.OneLine(err.Error()))
	}
	head := comment("Not imported: "+why, "Nothing reads this directory. Mend the object, and import it again or move it into its pool's directory.")
	return bytes.Join([][]byte{head, text}, nil)
}

// ownMetadata is the metadata that people write.
func ownMetadata(meta map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range []string{"name", "labels", "annotations"} {
		if v, ok := meta[k]; ok {
			out[k] = v
		}
	}
	return out
}
