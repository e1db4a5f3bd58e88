package containerruntime

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bunsen-os/bunsen/transpile/object"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	// RuntimeAnnotation names the container runtime of the pool's nodes.
	RuntimeAnnotation = "bunsen.dev/container-runtime"
	runtimeCRIO       = "crio"

	dropInPath  = "/etc/crio/crio.conf.d/01-ctrcfg-"
	storagePath = "/etc/containers/storage.conf"
	// settingsPath is the path of the runtime's settings in a document.
	settingsPath = "$.spec.containerRuntimeConfig"

	minPidsLimit = 20
	// maxUnusableLog is the size of CRI-O's read buffer in bytes. The maximum size of a log must be larger.
	maxUnusableLog = 8192
)

// logLevels are the levels that CRI-O accepts.
var logLevels = []string{"fatal", "panic", "error", "warn", "info", "debug", "trace"}

// overlaySize matches a size that both Kubernetes and the storage library can read.
var overlaySize = regexp.MustCompile(`^[0-9]+([kMGTP]|[KMGTP]i)?$`)

// Translate translates a ContainerRuntimeConfig. It writes the same CRI-O drop-in files as OpenShift. The output is the zero
// value if a finding is fatal.
func Translate(in object.Input) (object.Output, []origin.Finding) {
	t, ok := object.Begin(in)
	var doc mcfgv1.ContainerRuntimeConfig
	if !ok || !t.Decode("ContainerRuntimeConfig", &doc) {
		return t.End()
	}
	checkRuntime(t, doc.Annotations)
	t.CheckSelector(doc.Spec.MachineConfigPoolSelector)
	if settings := doc.Spec.ContainerRuntimeConfig; settings != nil {
		refuseUnsupported(t, settings)
		addStorage(t, settings.OverlaySize)
		addDropIns(t, settings)
	}
	if len(t.Config.Storage.Files) == 0 && !origin.Fatal(t.Findings) {
		t.Errorf("$.spec", "document", "the ContainerRuntimeConfig sets nothing: set pidsLimit, logSizeMax, logLevel, overlaySize or defaultRuntime below spec.containerRuntimeConfig")
	}
	return t.End()
}

// checkRuntime checks which container runtime the document is for. Bunsen has output for CRI-O only. The repository does
// not show which runtime the nodes run, so a document without the annotation gets a warning.
func checkRuntime(t *object.Translation, annotations map[string]string) {
	switch name, set := annotations[RuntimeAnnotation]; {
	case !set:
		t.Warnf("$.kind", "container-runtime", "the document configures CRI-O only. Nodes with containerd ignore every field except overlaySize, which Podman and Buildah use. If the nodes of the pool run CRI-O, set the annotation %s: %s", RuntimeAnnotation, runtimeCRIO)
	case name != runtimeCRIO:
		t.Errorf("$.metadata.annotations."+RuntimeAnnotation, "container-runtime",
			"%s: Bunsen has no output for %q yet, only for %s; write the runtime's own files in a Butane document", RuntimeAnnotation, name, runtimeCRIO)
	}
}

// refuseUnsupported refuses fields that Bunsen cannot translate.
func refuseUnsupported(t *object.Translation, c *mcfgv1.ContainerRuntimeConfiguration) {
	for field, n := range map[string]int{
		"additionalLayerStores": len(c.AdditionalLayerStores), "additionalImageStores": len(c.AdditionalImageStores), "additionalArtifactStores": len(c.AdditionalArtifactStores),
	} {
		if n > 0 {
			t.Errorf(settingsPath+"."+field, "refused-field", "%s is not supported: write %s or a file below /etc/crio/crio.conf.d in a Butane document", field, storagePath)
		}
	}
}

// addStorage writes storage.conf with the maximum size of a container's writable layer.
func addStorage(t *object.Translation, size *resource.Quantity) {
	switch {
	case size == nil || size.IsZero():
		return
	case size.Sign() < 0:
		t.Errorf(settingsPath+".overlaySize", "field", "overlaySize %s is negative: write a size such as 8G", size)
	case !overlaySize.MatchString(size.String()):
		t.Errorf(settingsPath+".overlaySize", "field", "overlaySize %s is not a size that the storage library can read: write a whole number with a unit up to P, such as 8G", size)
	default:
		text := "[storage]\n  driver = \"overlay\"\n  runroot = \"/run/containers/storage\"\n  graphroot = \"/var/lib/containers/storage\"\n" +
			"  [storage.options]\n    additionalimagestores = []\n    size = " + quoted(size.String()) + "\n"
		t.AddFile(storagePath, text, settingsPath+".overlaySize")
	}
}

// addDropIns writes one file for each setting of CRI-O, in the order in which OpenShift writes them.
func addDropIns(t *object.Translation, c *mcfgv1.ContainerRuntimeConfiguration) {
	if c.LogLevel != "" {
		if !slices.Contains(logLevels, c.LogLevel) {
			t.Errorf(settingsPath+".logLevel", "field", "logLevel %q is not one of %s", c.LogLevel, strings.Join(logLevels, ", "))
		}
		addDropIn(t, "logLevel", "log_level = "+quoted(c.LogLevel))
	}
	if n := c.PidsLimit; n != nil {
		if *n < -1 || *n > 0 && *n < minPidsLimit {
			t.Errorf(settingsPath+".pidsLimit", "field", "pidsLimit %d is too small: write at least %d, or -1 for no limit", *n, minPidsLimit)
		}
		addDropIn(t, "pidsLimit", fmt.Sprintf("pids_limit = %d", *n))
	}
	if size := c.LogSizeMax; size != nil && !size.IsZero() {
		if n := size.Value(); n > 0 && n <= maxUnusableLog {
			t.Errorf(settingsPath+".logSizeMax", "field", "logSizeMax %s is too small: write more than %d bytes, or -1 for no limit", size, maxUnusableLog)
		}
		addDropIn(t, "logSizeMax", fmt.Sprintf("log_size_max = %d", size.Value()))
	}
	if name := c.DefaultRuntime; name != "" {
		if name != mcfgv1.ContainerRuntimeDefaultRuntimeCrun && name != mcfgv1.ContainerRuntimeDefaultRuntimeRunc {
			t.Errorf(settingsPath+".defaultRuntime", "field", "defaultRuntime %q is neither crun nor runc", string(name))
		}
		addDropIn(t, "defaultRuntime", "default_runtime = "+quoted(string(name)))
	}
}

// quoted returns a text as a TOML string. It escapes nothing, because the texts contain only letters and digits.
func quoted(text string) string { return `"` + text + `"` }

func addDropIn(t *object.Translation, field, line string) {
	t.AddFile(dropInPath+field, "[crio]\n  [crio.runtime]\n    "+line+"\n", settingsPath+"."+field)
}
