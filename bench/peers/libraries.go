package peers

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/bunsen-os/bunsen/bench/corpus"
)

// Butane translates documents as the command butane would, and returns their Ignition configs.
func Butane(texts ...[]byte) (configs [][]byte, err error) {
	for _, text := range texts {
		out, report, err := config.TranslateBytes(text, common.TranslateBytesOptions{})
		if err != nil || report.IsFatal() || len(out) == 0 {
			return nil, fmt.Errorf("translating with Butane: %w: %s", err, report)
		}
		configs = append(configs, out)
	}
	return configs, nil
}

// Overlay returns an overlay of n documents with a patch each, in kustomize's own file system.
func Overlay(d corpus.Documents, n int) (filesys.FileSystem, error) {
	memory := filesys.MakeFsInMemory()
	var base, pool strings.Builder
	base.WriteString("resources:\n")
	pool.WriteString("resources: [../base]\npatches:\n")
	files := map[string]string{}
	for i := range n {
		head := fmt.Sprintf("apiVersion: bench.example.com/v1\nkind: Butane\nmetadata:\n  name: doc-%04d\n", i)
		name := fmt.Sprintf("doc-%04d.yaml", i)
		files["/base/"+name], files["/pool/"+name] = head+d.Body(i, 0), head+corpus.Patch(i)
		fmt.Fprintf(&base, "  - %s\n", name)
		fmt.Fprintf(&pool, "  - path: %s\n", name)
	}
	files["/base/kustomization.yaml"], files["/pool/kustomization.yaml"] = base.String(), pool.String()
	for name, text := range files {
		if err := memory.WriteFile(name, []byte(text)); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return memory, nil
}

// Kustomize builds an Overlay as the command kustomize would.
func Kustomize(overlay filesys.FileSystem) error {
	out, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(overlay, "/pool")
	if err != nil {
		return fmt.Errorf("building with kustomize: %w", err)
	}
	text, err := out.AsYaml()
	if err == nil && len(text) == 0 {
		err = errors.New("kustomize built nothing")
	}
	return err
}
