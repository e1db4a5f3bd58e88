package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// unsetImage is the placeholder for the image of a program in config/.
func unsetImage(program string) string { return "image.invalid/" + program + ":set-yours" }

// writeManifests writes install.yaml, which is config/default with the images of images.json, and crds.yaml, which has
// only the CustomResourceDefinitions.
func writeManifests(root, out string) error {
	images, err := readImages(out)
	if err != nil {
		return err
	}
	for name, dir := range map[string]string{"install.yaml": "default", "crds.yaml": "crd"} {
		text, err := kustomize(filepath.Join(root, "config", dir))
		if err != nil {
			return err
		}
		if text, err = setImages(text, images); err != nil {
			return fmt.Errorf("setting the images of %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// kustomize returns the objects of a directory, as `kubectl kustomize` prints them.
func kustomize(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("building %s: %w", dir, err)
	}
	o := krusty.MakeDefaultOptions()
	// The order has namespaces and CustomResourceDefinitions first, so that one kubectl apply is enough.
	o.Reorder = krusty.ReorderOptionLegacy
	all, err := krusty.MakeKustomizer(o).Run(filesys.MakeFsOnDisk(), abs)
	if err != nil {
		return "", fmt.Errorf("building %s: %w", dir, err)
	}
	text, err := all.AsYaml()
	if err != nil {
		return "", fmt.Errorf("building %s: %w", dir, err)
	}
	return string(text), nil
}

// setImages replaces the placeholder image of each program. setImages returns an error if a placeholder remains, or if
// a reference has no digest. Without a digest, somebody could exchange the image after the release.
func setImages(text string, images map[string]string) (string, error) {
	var problems []error
	for _, program := range slices.Sorted(maps.Keys(images)) {
		if !strings.Contains(images[program], "@sha256:") {
			problems = append(problems, fmt.Errorf("the image %q has no digest", images[program]))
		}
		text = strings.ReplaceAll(text, "image: "+unsetImage(program)+"\n", "image: "+images[program]+"\n")
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "image: image.invalid/") && strings.Contains(line, ":set-yours") {
			problems = append(problems, fmt.Errorf("images.json does not have that of %q", strings.TrimSpace(line)))
		}
	}
	return text, errors.Join(problems...)
}
