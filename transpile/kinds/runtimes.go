package kinds

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Names of container runtimes in the annotation.
const (
	runtimeCRIO       = "crio"
	runtimeContainerd = "containerd"
)

// Runtimes are the container runtimes that a document configures.
type Runtimes struct {
	// CRIO also stands for the other programs that read the files below /etc/containers: Podman, Buildah and Skopeo.
	CRIO bool
	// Containerd is true for nodes with containerd.
	Containerd bool
	// Default is true if the document names no runtime. Then CRIO is true.
	Default bool
}

// RuntimesOf reads the annotation of a document that names its container runtimes, with commas between them.
func RuntimesOf(annotations map[string]string) (Runtimes, error) {
	text, set := annotations[v1alpha1.ContainerRuntimeAnnotation]
	if !set {
		return Runtimes{CRIO: true, Default: true}, nil
	}
	var out Runtimes
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case slices.Contains(names, name):
			return Runtimes{}, fmt.Errorf("%s: %q stands twice; keep one", v1alpha1.ContainerRuntimeAnnotation, name)
		case name == runtimeCRIO:
			out.CRIO = true
		case name == runtimeContainerd:
			out.Containerd = true
		case name == "k3s" || name == "rke2":
			return Runtimes{}, fmt.Errorf("%s: Bunsen has no output for %q: k3s and RKE2 write the files of "+
				"containerd themselves. Write /etc/rancher/%s/registries.yaml in a Butane document",
				v1alpha1.ContainerRuntimeAnnotation, name, name)
		default:
			return Runtimes{}, fmt.Errorf("%s: %q is not a container runtime that Bunsen has output for: write %s, "+
				"%s, or both with a comma", v1alpha1.ContainerRuntimeAnnotation, name, runtimeCRIO, runtimeContainerd)
		}
		names = append(names, name)
	}
	return out, nil
}
