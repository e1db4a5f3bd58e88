package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const digestOfNothing = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func imagesFile(t *testing.T, programs ...string) (dir string) {
	t.Helper()
	images := map[string]string{}
	for _, p := range programs {
		images[p] = "registry.example.com/bunsen/" + p + digestOfNothing
	}
	raw, err := json.Marshal(images)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "images.json"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheManifestHasTheImagesOfTheBuild(t *testing.T) {
	dir := imagesFile(t, "bunsen", "machine-config-controller", "machine-config-server", "machine-config-daemon")
	if err := writeManifests(root, dir); err != nil {
		t.Fatal(err)
	}
	install, err := os.ReadFile(filepath.Join(dir, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"machine-config-controller", "machine-config-server", "machine-config-daemon"} {
		// the daemon's is in the server's pod, too, and the controller's in the notifier's
		want := map[bool]int{false: 2, true: 1}[p == "machine-config-server"]
		if n := strings.Count(string(install), "image: registry.example.com/bunsen/"+p+digestOfNothing+
			"\n"); n != want {
			t.Errorf("install.yaml has the image of %s %d times", p, n)
		}
	}
	if first, _, _ := strings.Cut(string(install), "\n---\n"); !strings.Contains(first, "kind: Namespace") {
		t.Errorf("install.yaml begins with\n%s\nwant a namespace, which the other objects need", first)
	}
	kinds, err := os.ReadFile(filepath.Join(dir, "crds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if have, want := strings.Count(string(kinds), "\nkind: "), strings.Count("\n"+string(kinds),
		"\nkind: CustomResourceDefinition\n"); have != want || want < 9 {
		t.Errorf("crds.yaml has %d objects, %d of them CustomResourceDefinitions", have, want)
	}
}

func TestAManifestWithoutAnImageIsAnError(t *testing.T) {
	if err := writeManifests(root, imagesFile(t, "machine-config-controller", "machine-config-server")); err == nil ||
		!strings.Contains(err.Error(), "machine-config-daemon:set-yours") {
		t.Errorf("the daemon's image is missing: %v", err)
	}
	if _, err := setImages("image: image.invalid/x:set-yours\n",
		map[string]string{"x": "registry.example.com/x:latest"}); err == nil ||
		!strings.Contains(err.Error(), `"registry.example.com/x:latest" has no digest`) {
		t.Errorf("an image without a digest: %v", err)
	}
	if err := writeManifests(root, t.TempDir()); err == nil || !strings.Contains(err.Error(), "make images PUSH=") {
		t.Errorf("there is no images.json: %v", err)
	}
}
