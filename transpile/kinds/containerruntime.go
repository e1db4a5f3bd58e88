package kinds

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	dropInPath  = "/etc/crio/crio.conf.d/01-ctrcfg-"
	storagePath = "/etc/containers/storage.conf"
	// settingsPath is the path of the runtime's settings in a document.
	settingsPath = "$.spec.containerRuntimeConfig"

	ruleRuntime = "container-runtime"

	minPidsLimit = 20
	// maxUnusableLog is the size of CRI-O's read buffer in bytes. The maximum size of a log must be larger than
	// maxUnusableLog.
	maxUnusableLog = 8192
)

// logLevels are the levels that CRI-O accepts.
var logLevels = []string{"fatal", "panic", "error", "warn", "info", "debug", "trace"}

// overlaySize matches a size that both Kubernetes and the storage library can read.
var overlaySize = regexp.MustCompile(`^[0-9]+([kMGTP]|[KMGTP]i)?$`)

// TranslateContainerRuntime translates a ContainerRuntimeConfig. Translate writes the same CRI-O drop-in files as
// OpenShift. The output is the zero value if a finding is fatal.
func TranslateContainerRuntime(in ObjectInput) (ObjectOutput, []origin.Finding) {
	t, ok := BeginObject(in)
	var doc mcfgv1.ContainerRuntimeConfig
	if !ok || !t.Decode("ContainerRuntimeConfig", &doc) {
		return t.End()
	}
	t.checkRuntime(&doc)
	t.CheckSelector(doc.Spec.MachineConfigPoolSelector)
	if settings := doc.Spec.ContainerRuntimeConfig; settings != nil {
		t.addStorage(settings)
		t.addDropIns(settings)
		t.addArtifactStores(settings)
	}
	if len(t.Config.Storage.Files) == 0 && !origin.Fatal(t.Findings) {
		t.Errorf("$.spec", "document", "the ContainerRuntimeConfig sets nothing: set a field such as pidsLimit, "+
			"logSizeMax, logLevel, overlaySize or defaultRuntime below spec.containerRuntimeConfig")
	}
	return t.End()
}

// checkRuntime checks which container runtimes the document is for. CRI-O alone has these settings. A document without
// the annotation gets a warning, because the repository does not show which runtime the nodes run.
func (t *ObjectTranslation) checkRuntime(doc *mcfgv1.ContainerRuntimeConfig) {
	const at = "$.metadata.annotations." + v1alpha1.ContainerRuntimeAnnotation
	runtimes, err := RuntimesOf(doc.Annotations)
	switch {
	case err != nil:
		t.Errorf(at, ruleRuntime, "%v", err)
	case runtimes.Default:
		t.Warnf("$.kind", ruleRuntime, "the document configures CRI-O only. Nodes with containerd ignore every field "+
			"except overlaySize, which Podman and Buildah use. If the nodes of the pool run CRI-O, set the "+
			"annotation %s: %s", v1alpha1.ContainerRuntimeAnnotation, runtimeCRIO)
	case runtimes.Containerd && doc.Spec.ContainerRuntimeConfig != nil:
		t.reportContainerd(doc.Spec.ContainerRuntimeConfig, runtimes)
	}
}

// reportContainerd reports each field that containerd does not have, with what to write instead: an error if the
// document is for containerd alone, or a warning if it is for CRI-O too.
func (t *ObjectTranslation) reportContainerd(c *mcfgv1.ContainerRuntimeConfiguration, runtimes Runtimes) {
	report := t.Errorf
	if runtimes.CRIO {
		report = t.Warnf
	}
	const drop = "write a file below /etc/containerd/conf.d in a Butane document, which config.toml imports"
	for _, f := range []struct {
		field   string
		set     bool
		instead string
	}{
		{"logLevel", c.LogLevel != "", "for containerd, " + drop + ": [debug] with level"},
		{
			"pidsLimit", c.PidsLimit != nil,
			"containerd has no such setting: set podPidsLimit in a KubeletConfiguration, which limits the processes " +
				"of a pod",
		},
		{
			"logSizeMax", c.LogSizeMax != nil,
			"containerd does not limit logs: set containerLogMaxSize in a KubeletConfiguration",
		},
		{
			"overlaySize", c.OverlaySize != nil,
			"containerd does not limit the writable layer of a container: set a limit of ephemeral-storage in pods",
		},
		{"defaultRuntime", c.DefaultRuntime != "", "for containerd, " + drop +
			": default_runtime_name and the runtime's own table"},
		{
			"additionalLayerStores", len(c.AdditionalLayerStores) > 0,
			"containerd has no additional stores: use a snapshotter plugin",
		},
		{
			"additionalImageStores", len(c.AdditionalImageStores) > 0,
			"containerd has no additional stores: use a snapshotter plugin",
		},
		{"additionalArtifactStores", len(c.AdditionalArtifactStores) > 0, "containerd has no additional stores"},
	} {
		if f.set {
			report(settingsPath+"."+f.field, ruleRuntime, "%s is a setting of CRI-O; %s", f.field, f.instead)
		}
	}
}

// addStorage writes storage.conf with the maximum size of a container's writable layer and with additional stores.
func (t *ObjectTranslation) addStorage(c *mcfgv1.ContainerRuntimeConfiguration) {
	var options, first string
	add := func(field, line string) {
		options += "    " + line + "\n"
		first = cmp.Or(first, settingsPath+"."+field)
	}
	if size := c.OverlaySize; size != nil && !size.IsZero() {
		t.checkSize(size)
		add("overlaySize", "size = "+quoted(size.String()))
	}
	var layers, images []mcfgv1.StorePath
	for _, s := range c.AdditionalLayerStores {
		layers = append(layers, s.Path)
	}
	for _, s := range c.AdditionalImageStores {
		images = append(images, s.Path)
	}
	if paths := t.storePaths("additionalLayerStores", layers); len(paths) > 0 {
		for i, p := range paths { // the storage library then finds layers by the references of images
			paths[i] = strings.TrimSuffix(p, ":ref") + ":ref"
		}
		add("additionalLayerStores", "additionallayerstores = "+list(paths))
	}
	stores := t.storePaths("additionalImageStores", images)
	if len(stores) > 0 {
		first = cmp.Or(first, settingsPath+".additionalImageStores")
	}
	if first == "" {
		return
	}
	text := "[storage]\n  driver = \"overlay\"\n  runroot = \"/run/containers/storage\"\n" +
		"  graphroot = \"/var/lib/containers/storage\"\n" +
		"  [storage.options]\n    additionalimagestores = " + list(stores) + "\n" + options
	t.AddFile(storagePath, text, first)
}

// checkSize refuses a size that the storage library cannot read.
func (t *ObjectTranslation) checkSize(size *resource.Quantity) {
	switch {
	case size.Sign() < 0:
		t.Errorf(settingsPath+".overlaySize", "field", "overlaySize %s is negative: write a size such as 8G", size)
	case !overlaySize.MatchString(size.String()):
		t.Errorf(settingsPath+".overlaySize", "field", "overlaySize %s is not a size that the storage library can "+
			"read: write a whole number with a unit up to P, such as 8G", size)
	}
}

// storePath matches the path of a store. The pattern is the one of the API.
var storePath = regexp.MustCompile(`^/[a-zA-Z0-9/._-]+$`)

// storePaths returns the paths of a list of stores, and refuses those that are not plain.
func (t *ObjectTranslation) storePaths(field string, stores []mcfgv1.StorePath) (out []string) {
	for i, s := range stores {
		p := strings.TrimSuffix(string(s), ":ref")
		if !storePath.MatchString(p) || path.Clean(p) != p {
			t.Errorf(fmt.Sprintf("%s.%s.%d.path", settingsPath, field, i), "field", "%q is not the path of a store: "+
				"write an absolute path of letters, digits and ._- without . or .. as a name", p)
			continue
		}
		if slices.Contains(out, p) {
			t.Errorf(fmt.Sprintf("%s.%s.%d.path", settingsPath, field, i), "field",
				"the store %s stands twice in %s; keep one", p, field)
			continue
		}
		out = append(out, p)
	}
	return out
}

// list returns texts as a TOML array.
func list(texts []string) string {
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = quoted(t)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// addDropIns writes one file for each setting of CRI-O, in the order in which OpenShift writes them.
func (t *ObjectTranslation) addDropIns(c *mcfgv1.ContainerRuntimeConfiguration) {
	if c.LogLevel != "" {
		if !slices.Contains(logLevels, c.LogLevel) {
			t.Errorf(settingsPath+".logLevel", "field", "logLevel %q is not one of %s", c.LogLevel,
				strings.Join(logLevels, ", "))
		}
		t.addDropIn("logLevel", "log_level = "+quoted(c.LogLevel))
	}
	if n := c.PidsLimit; n != nil {
		if *n < -1 || *n > 0 && *n < minPidsLimit {
			t.Errorf(settingsPath+".pidsLimit", "field", "pidsLimit %d is too small: write at least %d, or -1 for "+
				"no limit", *n, minPidsLimit)
		}
		t.addDropIn("pidsLimit", fmt.Sprintf("pids_limit = %d", *n))
	}
	if size := c.LogSizeMax; size != nil && !size.IsZero() {
		if n := size.Value(); n > 0 && n <= maxUnusableLog {
			t.Errorf(settingsPath+".logSizeMax", "field", "logSizeMax %s is too small: write more than %d bytes, or "+
				"-1 for no limit", size, maxUnusableLog)
		}
		t.addDropIn("logSizeMax", fmt.Sprintf("log_size_max = %d", size.Value()))
	}
	if name := c.DefaultRuntime; name != "" {
		if name != mcfgv1.ContainerRuntimeDefaultRuntimeCrun && name != mcfgv1.ContainerRuntimeDefaultRuntimeRunc {
			t.Errorf(settingsPath+".defaultRuntime", "field", "defaultRuntime %q is neither crun nor runc",
				string(name))
		}
		t.addDropIn("defaultRuntime", "default_runtime = "+quoted(string(name)))
	}
}

// addArtifactStores writes the file of CRI-O with additional stores of artifacts.
func (t *ObjectTranslation) addArtifactStores(c *mcfgv1.ContainerRuntimeConfiguration) {
	var artifacts []mcfgv1.StorePath
	for _, s := range c.AdditionalArtifactStores {
		artifacts = append(artifacts, s.Path)
	}
	if paths := t.storePaths("additionalArtifactStores", artifacts); len(paths) > 0 {
		t.addDropIn("additionalArtifactStores", "additional_artifact_stores = "+list(paths))
	}
}

// quoted returns a text as a TOML string. quoted escapes nothing, because the texts contain only letters, digits and
// /._:-
func quoted(text string) string { return `"` + text + `"` }

func (t *ObjectTranslation) addDropIn(field, line string) {
	t.AddFile(dropInPath+field, "[crio]\n  [crio.runtime]\n    "+line+"\n", settingsPath+"."+field)
}
