package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// installation reports whether a block is an overlay of config/ rather than of a config repository.
func installation(_ block, n *yaml.Node) bool {
	return slices.ContainsFunc(contents(value(n, "resources")), func(r *yaml.Node) bool {
		return strings.HasPrefix(r.Value, "bunsen/config")
	})
}

// installationBlock builds an overlay of config/, alone and with each component of config/components. It has no image
// that is not set.
func installationBlock(t *testing.T, _ block, n *yaml.Node, text string) {
	strictly(t, n, &types.Kustomization{})
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "bunsen", "config"), os.DirFS("../../config")); err != nil {
		t.Fatal(err)
	}
	components, err := os.ReadDir("../../config/components")
	if err != nil {
		t.Fatal(err)
	}
	overlays := []string{text}
	for _, c := range components {
		overlays = append(overlays, text+"components: [bunsen/config/components/"+c.Name()+"]\n")
	}
	for _, overlay := range overlays {
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o644); err != nil {
			t.Fatal(err)
		}
		all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
		if err != nil {
			t.Fatalf("%v\n%s", err, overlay)
		}
		built, err := all.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(built), "image: image.invalid") ||
			!strings.Contains(string(built), "kind: DaemonSet") {
			t.Errorf("the overlay does not set every image:\n%s", overlay)
		}
		if single := strings.Contains(overlay, "single-control-plane"); single == strings.Contains(string(built),
			"kind: PodDisruptionBudget") {
			t.Errorf("a disruption budget and a single control plane:\n%s", overlay)
		}
	}
}

// installationPatch reports whether a block has patches of a Deployment, which an overlay of config/ has.
func installationPatch(_ block, n *yaml.Node) bool {
	return slices.ContainsFunc(contents(value(n, "patches")), func(p *yaml.Node) bool {
		return word(p, "target", "kind") == "Deployment"
	})
}

// installationPatchBlock builds an overlay of config/ with the patches.
func installationPatchBlock(t *testing.T, _ block, n *yaml.Node, text string) {
	strictly(t, n, &types.Kustomization{})
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "bunsen", "config"), os.DirFS("../../config")); err != nil {
		t.Fatal(err)
	}
	overlay := "resources: [bunsen/config/default]\n" + text
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir); err != nil {
		t.Fatalf("%v\n%s", err, overlay)
	}
}
