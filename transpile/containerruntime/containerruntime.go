package containerruntime

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/object"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	// RuntimeAnnotation names the container runtime of the pool's nodes.
	RuntimeAnnotation = "bunsen.dev/container-runtime"
	runtimeCRIO       = "crio"

	dropInPath  = "/etc/crio/crio.conf.d/01-ctrcfg-"
	storagePath = "/etc/containers/storage.conf"
	// poolLabel with the name of a pool is a label that each MachineConfigPool of OpenShift has.
	poolLabel = "pools.operator.machineconfiguration.openshift.io/"
	// settingsPath is the path of the runtime's settings in a document.
	settingsPath = "$.spec.containerRuntimeConfig"

	minPidsLimit = 20
	// maxUnusableLog is the size of CRI-O's read buffer: a log must be larger.
	maxUnusableLog = 8192
)

// logLevels are the levels that CRI-O accepts.
var logLevels = []string{"fatal", "panic", "error", "warn", "info", "debug", "trace"}

// overlaySize is the form of a size that both Kubernetes and the storage library can read.
var overlaySize = regexp.MustCompile(`^[0-9]+([kMGTP]|[KMGTP]i)?$`)

// Input is one document.
type Input struct {
	// Pool is the name of the pool whose directory holds the document.
	Pool string
	// Source is the document as YAML.
	Source []byte
	// Origin maps paths in the document to places in the repository.
	Origin origin.Map
}

// Output holds the files of one document.
type Output struct {
	// Config holds the files.
	Config machineconfig.Config
	// Origin maps paths of the output to places in the repository.
	Origin origin.Map
}

// Translate translates a ContainerRuntimeConfig. It writes the same CRI-O drop-in files as OpenShift. The output is the zero
// value if a finding is fatal.
func Translate(in Input) (Output, []origin.Finding) {
	t := &translator{in: in, places: map[string]origin.Pos{}}
	content, err := object.Read(in.Source)
	if err != nil || content == nil {
		t.fatal("$", "yaml", "not an object: an object is a mapping that begins with apiVersion and kind")
		return Output{}, t.findings
	}
	var doc mcfgv1.ContainerRuntimeConfig
	t.findings = object.Part{Object: content, Path: "$", Places: in.Origin, What: "ContainerRuntimeConfig"}.Decode(&doc)
	if origin.Fatal(t.findings) {
		return Output{}, t.findings
	}
	t.runtime(doc.Annotations)
	t.selector(doc.Spec.MachineConfigPoolSelector)
	if settings := doc.Spec.ContainerRuntimeConfig; settings != nil {
		t.unsupported(settings)
		t.storage(settings.OverlaySize)
		t.dropIns(settings)
	}
	if len(t.files) == 0 && !origin.Fatal(t.findings) {
		t.fatal("$.spec", "document", "the ContainerRuntimeConfig sets nothing: set pidsLimit, logSizeMax, logLevel, overlaySize or defaultRuntime below spec.containerRuntimeConfig")
	}
	return t.end()
}

// translator collects the files of one document.
type translator struct {
	in       Input
	files    []ign.File
	places   map[string]origin.Pos
	findings []origin.Finding
}

func (t *translator) fatal(at, rule, format string, args ...any) {
	p, _ := t.in.Origin.Find(at)
	t.findings = append(t.findings, origin.Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: p})
}

// runtime checks for which runtime the document is. Bunsen has output for CRI-O only, and a repository does not say what the
// nodes run, so that a document without the annotation gets a warning.
func (t *translator) runtime(annotations map[string]string) {
	switch name, set := annotations[RuntimeAnnotation]; {
	case !set:
		at, _ := t.in.Origin.Find("$.kind")
		t.findings = append(t.findings, origin.Finding{
			Warning: true, Rule: "container-runtime", At: at,
			Message: "the document configures CRI-O only; nodes with containerd ignore all its fields except overlaySize, which reaches Podman and Buildah; if the nodes of the pool run CRI-O, set the annotation " + RuntimeAnnotation + ": " + runtimeCRIO,
		})
	case name != runtimeCRIO:
		t.fatal("$.metadata.annotations."+RuntimeAnnotation, "container-runtime",
			"%s: Bunsen has no output for %q yet, only for %s; write the runtime's own files in a Butane document", RuntimeAnnotation, name, runtimeCRIO)
	}
}

// selector rejects a selector that does not select the pool: the directory says which pool a document is for.
func (t *translator) selector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || sel.Empty() || !sel.Matches(labels.Set{poolLabel + t.in.Pool: ""}) {
		t.fatal("$.spec.machineConfigPoolSelector", "selector", "the directory says which pool a document is for, and this selector does not select %s: remove it, or select the label %s%s", t.in.Pool, poolLabel, t.in.Pool)
	}
}

// unsupported rejects fields that have no output.
func (t *translator) unsupported(c *mcfgv1.ContainerRuntimeConfiguration) {
	for field, n := range map[string]int{
		"additionalLayerStores": len(c.AdditionalLayerStores), "additionalImageStores": len(c.AdditionalImageStores), "additionalArtifactStores": len(c.AdditionalArtifactStores),
	} {
		if n > 0 {
			t.fatal(settingsPath+"."+field, "refused-field", "%s is not supported: write %s or a file below /etc/crio/crio.conf.d in a Butane document", field, storagePath)
		}
	}
}

// storage writes storage.conf with the maximum size of a container's own layer.
func (t *translator) storage(size *resource.Quantity) {
	switch {
	case size == nil || size.IsZero():
		return
	case size.Sign() < 0:
		t.fatal(settingsPath+".overlaySize", "field", "overlaySize %s is negative: write a size such as 8G", size)
	case !overlaySize.MatchString(size.String()):
		t.fatal(settingsPath+".overlaySize", "field", "overlaySize %s is not a size that the storage library can read: write a whole number with a unit up to P, such as 8G", size)
	default:
		text := "[storage]\n  driver = \"overlay\"\n  runroot = \"/run/containers/storage\"\n  graphroot = \"/var/lib/containers/storage\"\n" +
			"  [storage.options]\n    additionalimagestores = []\n    size = " + quoted(size.String()) + "\n"
		t.add(storagePath, text, "overlaySize")
	}
}

// dropIns writes one file for each setting of CRI-O, in the order in which OpenShift writes them.
func (t *translator) dropIns(c *mcfgv1.ContainerRuntimeConfiguration) {
	if c.LogLevel != "" {
		if !slices.Contains(logLevels, c.LogLevel) {
			t.fatal(settingsPath+".logLevel", "field", "logLevel %q is not one of %s", c.LogLevel, strings.Join(logLevels, ", "))
		}
		t.dropIn("logLevel", "log_level = "+quoted(c.LogLevel))
	}
	if n := c.PidsLimit; n != nil {
		if *n < -1 || *n > 0 && *n < minPidsLimit {
			t.fatal(settingsPath+".pidsLimit", "field", "pidsLimit %d is too small: write at least %d, or -1 for no limit", *n, minPidsLimit)
		}
		t.dropIn("pidsLimit", fmt.Sprintf("pids_limit = %d", *n))
	}
	if size := c.LogSizeMax; size != nil && !size.IsZero() {
		if n := size.Value(); n > 0 && n <= maxUnusableLog {
			t.fatal(settingsPath+".logSizeMax", "field", "logSizeMax %s is too small: write more than %d bytes, or -1 for no limit", size, maxUnusableLog)
		}
		t.dropIn("logSizeMax", fmt.Sprintf("log_size_max = %d", size.Value()))
	}
	if name := c.DefaultRuntime; name != "" {
		if name != mcfgv1.ContainerRuntimeDefaultRuntimeCrun && name != mcfgv1.ContainerRuntimeDefaultRuntimeRunc {
			t.fatal(settingsPath+".defaultRuntime", "field", "defaultRuntime %q is neither crun nor runc", string(name))
		}
		t.dropIn("defaultRuntime", "default_runtime = "+quoted(string(name)))
	}
}

// quoted is a text of TOML. The texts that are written have only letters and digits.
func quoted(text string) string { return `"` + text + `"` }

func (t *translator) dropIn(field, line string) {
	t.add(dropInPath+field, "[crio]\n  [crio.runtime]\n    "+line+"\n", field)
}

// add adds one file whose contents come from one setting.
func (t *translator) add(file, text, field string) {
	source, mode, overwrite := "data:,"+url.PathEscape(text), 0o644, true
	t.files = append(t.files, ign.File{
		Node:          ign.Node{Path: file, Overwrite: &overwrite},
		FileEmbedded1: ign.FileEmbedded1{Mode: &mode, Contents: ign.Resource{Source: &source}},
	})
	at := fmt.Sprintf("$.storage.files.%d", len(t.files)-1)
	if p, ok := t.in.Origin.Find(settingsPath + "." + field); ok {
		t.places[at], t.places[at+".contents.source"] = p, p
	}
}

func (t *translator) end() (Output, []origin.Finding) {
	if origin.Fatal(t.findings) {
		return Output{}, t.findings
	}
	if p, ok := t.in.Origin.Find("$"); ok {
		t.places["$"] = p
	}
	out := Output{Origin: origin.Map{Files: t.in.Origin.Files, At: t.places}}
	out.Config.HasIgnition = true
	out.Config.Ignition.Ignition.Version = machineconfig.Version
	out.Config.Ignition.Storage.Files = t.files
	return out, t.findings
}
