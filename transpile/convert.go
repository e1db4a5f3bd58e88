package transpile

import (
	"fmt"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/containerruntime"
	"github.com/bunsen-os/bunsen/transpile/ignition"
	"github.com/bunsen-os/bunsen/transpile/kubelet"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
	"github.com/bunsen-os/bunsen/transpile/sshkeys"
)

// convert turns a document of any kind into a config.
func (r *run) convert(pool string, n named) draft {
	doc := n.doc
	d := draft{name: n.name, role: pool}
	var findings []origin.Finding
	switch doc.Kind {
	case overlay.MachineConfig:
		return rawConfig(doc)
	case overlay.Butane:
		var out butane.Output
		out, findings = butane.Translate(butane.Input{
			Source: doc.Source, Parsed: n.parsed, Origin: doc.Origin, Root: r.tree.Root, FS: r.fs, Refused: r.refused,
		})
		d.config, d.origin, d.locals = out.Config, out.Origin, locals(out.Locals)
		if out.Name != "" {
			d.name, d.role = out.Name, out.Role
		}
	case overlay.Ignition:
		var out ignition.Output
		out, findings = ignition.Translate(ignition.Input{Source: doc.Source, Origin: doc.Origin})
		d.config, d.origin = out.Config, out.Origin
	case overlay.KubeletConfiguration, overlay.KubeletConfig:
		read := kubelet.Config
		if doc.Kind == overlay.KubeletConfiguration {
			read = kubelet.Configuration
		}
		var out kubelet.Output
		out, findings = read(kubelet.Input{Pool: pool, Source: doc.Source, Origin: doc.Origin})
		d.config, d.origin = out.Config, out.Origin
	case overlay.ContainerRuntimeConfig:
		var out containerruntime.Output
		out, findings = containerruntime.Translate(containerruntime.Input{Pool: pool, Source: doc.Source, Origin: doc.Origin})
		d.config, d.origin = out.Config, out.Origin
	case overlay.SSHKeys:
		var out sshkeys.Output
		out, findings = sshkeys.Translate(sshkeys.Input{Source: doc.Source, Origin: doc.Origin})
		d.config, d.origin = out.Config, out.Origin
	default:
		findings = []origin.Finding{{Rule: "kind", At: origin.Pos{File: doc.File}, Message: fmt.Sprintf("no document of kind %q is known here", doc.Kind)}}
	}
	d.findings = append(d.findings, findings...)
	if doc.Kind != overlay.Butane && !origin.Fatal(d.findings) {
		for _, bad := range machineconfig.Validate(d.config) { // what Ignition itself refuses is said with the config's own words
			at, _ := d.origin.Find(outputPath(bad.Error()))
			d.fatal(at, "ignition", "%s", message.TranslateLine(bad.Error()))
		}
	}
	return d
}
