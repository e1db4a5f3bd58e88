package render

import (
	"errors"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// Rendered is the config of a pool. Rendered is shared, so callers must not change it.
type Rendered struct {
	// Pool is the pool's name.
	Pool string
	// Name is rendered-<pool>-<hash of Spec>. If nodes have configs of their own, it is the machineconfig.TargetName of
	// Nodes.
	Name string
	// Nodes are the configs of the nodes, if any has its own.
	Nodes v1alpha1.NodeConfigs
	// VariantOf is the config of the pool from which the config of single nodes was merged; empty for the config of a
	// pool.
	VariantOf string
	// Spec is the spec in canonical form. It is that of the nodes without a config of their own.
	Spec mcfgv1.MachineConfigSpec
	// Config is the parsed Spec.
	Config machineconfig.Config
	// Contents are the files that this merge moved to the content store, because the config would not fit into an
	// object. Files that the inputs have there are not in the list.
	Contents []machineconfig.LargeFile
	// Inputs are the names of the MachineConfigs in the order of merging. Later inputs override earlier inputs.
	Inputs []string
	// Warnings are texts for users about problems that do not prevent the render.
	Warnings []string
	// Notices are the items that several MachineConfigs set differently, so that the order of merging decides. Notices
	// are not errors.
	Notices []Notice

	book *book
	own  ownConfigs
	// inputs is the digestOfInputs; zero if nodes have configs of their own.
	inputs digest
}

// Winner returns the name of the MachineConfig that set an entry last, or "" if the config has no such entry. The name
// of a kernel argument or an extension is its text. Kinds with only one entry have the name "".
func (r Rendered) Winner(kind disruption.ChangeKind, name string) string {
	if r.book == nil {
		return ""
	}
	return r.book.last(entry{kind, name})
}

// Layers returns the inputs in the order of merging. The inputs are shared, so callers must not change them.
func (r Rendered) Layers() []Input {
	if r.book == nil {
		return nil
	}
	return r.book.inputs
}

// ImagesWithoutDigest returns which images of the config have no digest, each with its MachineConfig. They come from
// MachineConfigs that users created through the API: they stay valid, because the nodes of existing clusters need them.
func (r Rendered) ImagesWithoutDigest() (texts []string) {
	system, extensions := r.Name, r.Name
	for _, in := range r.Layers() {
		if in.Generated {
			continue
		}
		if in.Config.OSImageURL != "" {
			system = in.Name
		}
		if in.Config.ExtensionsImage != "" {
			extensions = in.Name
		}
	}
	for _, image := range []struct {
		from   string
		config machineconfig.Config
	}{
		{system, machineconfig.Config{OSImageURL: r.Config.OSImageURL}},
		{extensions, machineconfig.Config{ExtensionsImage: r.Config.ExtensionsImage}},
	} {
		for _, err := range machineconfig.CheckImages(image.config) {
			texts = append(texts, "MachineConfig "+image.from+": "+err.Error())
		}
	}
	return texts
}

// Defaults are what a cluster has for its pools: images, if their MachineConfigs set none, and a content store.
type Defaults struct {
	// OSImageURL is the default OS image, or "".
	OSImageURL string
	// ExtensionsImage is the default image of extensions, or "".
	ExtensionsImage string
	// Unreviewed are the paths that may have contents that no reviewer can read, as the pool's annotation
	// v1alpha1.UnreviewedPathsAnnotation lists them.
	Unreviewed string
	// LargeFiles is true if machines can read files that are too large for a MachineConfig from the content store.
	// Otherwise a config that does not fit into an object is an error.
	LargeFiles bool
}

// Check returns why the default images do not decide what nodes run, each with the flag that sets it.
func (d Defaults) Check() error {
	var bad []error
	for _, image := range []struct{ flag, reference string }{
		{"os-image", d.OSImageURL}, {"extensions-image", d.ExtensionsImage},
	} {
		if err := machineconfig.CheckImageFlag(image.reference); err != nil {
			bad = append(bad, fmt.Errorf("--%s: %w", image.flag, err))
		}
	}
	return errors.Join(bad...)
}

// For returns the defaults for a pool with these annotations.
func (d Defaults) For(annotations map[string]string) Defaults {
	d.Unreviewed = annotations[v1alpha1.UnreviewedPathsAnnotation]
	return d
}

// ForExisting returns the defaults for a config that has been rendered before, and is not judged again.
func (d Defaults) ForExisting() Defaults {
	d.Unreviewed = allUnreviewed
	return d
}
