package transpile

import (
	"github.com/bunsen-os/bunsen/transpile/kinds"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/butane"

	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// convert turns a document of any kind into a config.
func convert(repo repository, pool string, n named) translation {
	doc := n.doc
	d := translation{name: n.name, role: pool}
	in := kinds.ObjectInput{Pool: pool, Source: doc.Source, Origin: doc.Origin}
	var out kinds.ObjectOutput
	var found []origin.Finding
	switch doc.Kind {
	case documents.MachineConfig:
		return rawConfig(doc)
	case documents.Butane:
		var b butane.Output
		b, found = butane.Translate(butane.Input{
			Source: doc.Source, Origin: doc.Origin, Root: repo.tree.Root, FS: repo.fs, Refused: repo.refused,
		})
		out, d.included, d.contents = kinds.ObjectOutput{Config: b.Config, Origin: b.Origin}, includedBy(b.Locals),
			b.Contents
		d.system = b.Variant
		if b.Name != "" {
			d.name, d.role = b.Name, b.Role
		}
	case documents.Ignition:
		var i kinds.IgnitionOutput
		i, found = kinds.TranslateIgnition(kinds.IgnitionInput{Source: doc.Source, Origin: doc.Origin})
		out = kinds.ObjectOutput{Config: i.Config, Origin: i.Origin}
	case documents.KubeletConfiguration:
		out, found = kinds.KubeletConfiguration(in)
	case documents.KubeletConfig:
		out, found = kinds.TranslateKubelet(in)
	case documents.ContainerRuntimeConfig:
		out, found = kinds.TranslateContainerRuntime(in)
	case documents.ImageDigestMirrorSet, documents.ImageTagMirrorSet, documents.ImageContentSourcePolicy,
		documents.ClusterImagePolicy, documents.ImagePolicy:
		out, found = kinds.TranslateRegistries(aboutRegistries(pool, n))
	case documents.SSHKeys:
		out, found = kinds.TranslateSSHKeys(in)
	default:
		found = []origin.Finding{origin.Errorf(origin.Pos{File: doc.File}, "kind", "unknown kind %q", doc.Kind)}
	}
	d.config, d.origin = out.Config, out.Origin
	d.Add(found...)
	if doc.Kind != documents.Butane && !d.HasErrors() {
		for _, bad := range machineconfig.Validate(d.config) { // Butane has already validated Butane documents.
			at, _ := d.origin.Find(PlacedOutput(bad.Error()))
			d.Errorf(at, "ignition", "%s", message.TranslateLine(bad.Error()))
		}
	}
	return d
}

// aboutRegistries returns the documents that become one fragment about registries.
func aboutRegistries(pool string, n named) []kinds.RegistriesDocument {
	out := make([]kinds.RegistriesDocument, 0, 1+len(n.joined))
	for _, d := range append([]documents.Document{n.doc}, n.joined...) {
		out = append(out, kinds.RegistriesDocument{Kind: string(d.Kind), ObjectInput: kinds.ObjectInput{
			Pool: pool, Source: d.Source,
			Origin: d.Origin,
		}})
	}
	return out
}
