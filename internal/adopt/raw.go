package adopt

import (
	"bytes"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"

	"github.com/bunsen-os/bunsen/internal/secretmask"
)

func (a *adoption) rawDocument(c config, name, why string) document {
	spec := Mapping()
	if c.spec.HasIgnition {
		spec.Content = append(spec.Content, Key("config"), ignitionYAML(c.spec))
	}
	spec.Content = append(spec.Content, hostFields(c.spec, "kernelArguments", "kernelType").Content...)
	for _, image := range []struct{ key, value string }{
		{"osImageURL", c.spec.OSImageURL},
		{"baseOSExtensionsContainerImage", c.spec.ExtensionsImage},
	} {
		if image.value != "" {
			spec.Content = append(spec.Content, Key(image.key), String(image.value))
		}
	}
	root := Mapping(Key("apiVersion"), Key(mcfgv1.GroupVersion.String()), Key("kind"),
		Key(machineConfigKind), Key("metadata"), metadata(c, name), Key("spec"), spec)
	d := document{config: c, file: a.exactName(c, name) + ".yaml", why: []string{why}}
	for _, err := range machineconfig.CheckImages(c.spec) {
		a.warn(c.index, "image-digest", "%v; until then, no commit of the repository is valid", err)
		d.why = append(d.why, err.Error()+".")
	}
	a.completeDocument(&d, root, secretsOfRaw(c.spec, a.opts.Secrets))
	return d
}

// secretsOfRaw finds the secrets of a config that stays a MachineConfig.
func secretsOfRaw(c machineconfig.Config, named secretmask.Paths) *Document {
	w := &Document{}
	for _, f := range c.Ignition.Storage.Files {
		if contents, err := machineconfig.Contents(f.Contents); err == nil && (IsPrivate(f.Path, f.Mode) ||
			named.Match(f.Path) || len(secretmask.Credentials(string(contents))) > 0) {
			w.Exposed = append(w.Exposed, f.Path)
		}
	}
	for _, l := range c.Ignition.Storage.Luks {
		if l.KeyFile.Source != nil {
			w.Exposed = append(w.Exposed, "the key of "+l.Name)
		}
	}
	for _, u := range c.Ignition.Passwd.Users {
		if u.PasswordHash != nil && *u.PasswordHash != "" {
			w.Hashes = append(w.Hashes, u.Name)
		}
	}
	return w
}

// hostFields writes the fields outside of Ignition, except images.
func hostFields(c machineconfig.Config, kernelArguments, kernelType string) *yaml.Node {
	n := Mapping()
	if len(c.KernelArguments) > 0 {
		n.Content = append(n.Content, Key(kernelArguments), list(c.KernelArguments))
	}
	if c.KernelType != "" && c.KernelType != "default" {
		n.Content = append(n.Content, Key(kernelType), String(c.KernelType))
	}
	if len(c.Extensions) > 0 {
		n.Content = append(n.Content, Key("extensions"), list(c.Extensions))
	}
	if c.FIPS {
		n.Content = append(n.Content, Key("fips"), &yaml.Node{
			Kind: yaml.ScalarNode, Tag: "!!bool",
			Value: "true",
		})
	}
	return n
}

func ignitionYAML(c machineconfig.Config) *yaml.Node {
	v := ignitionOf(c)
	head, ok := v["ignition"].(map[string]any)
	if !ok {
		head = map[string]any{}
		v["ignition"] = head
	}
	head["version"] = machineconfig.Version
	return Verbatim(v)
}

// kustomization is the name, without extension, of the file that lists a directory's documents.
const kustomization = "kustomization"

// exactName returns the file name, without extension, of a document that names itself: the document's name, unless one
// that takes its name from its file needs that file.
func (a *adoption) exactName(c config, name string) string {
	file := name
	if len(file) > MaxFileName {
		file = FileName(file)
	}
	for a.isNameTaken(c.pool, file) {
		file += "-named"
	}
	a.exacts[c.pool+"/"+file] = true
	return file
}

// isNameTaken reports whether another document of the pool has this file name, or it is reserved.
func (a *adoption) isNameTaken(pool, file string) bool {
	return a.stems[pool+"/"+file] || a.exacts[pool+"/"+file] || file == kustomization
}

// setAsideText returns an unchanged object for a user to check.
func setAsideText(o object, why string) []byte {
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
		text = fmt.Appendf(nil, "# Bunsen cannot write it as YAML: %s\n", safetext.OneLine(err.Error()))
	}
	head := Comment("Not imported: "+why, "Nothing reads this directory. Fix the object, and import it again "+
		"or move it into its pool's directory.")
	return bytes.Join([][]byte{head, text}, nil)
}

// ownMetadata keeps what users write.
func ownMetadata(meta map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range []string{"name", "labels", "annotations"} {
		if v, ok := meta[k]; ok {
			out[k] = v
		}
	}
	return out
}
