package adopt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/kinds"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	kubeletKind = "KubeletConfig"
	runtimeKind = "ContainerRuntimeConfig"

	// poolLabel with the name of a pool is a label that each MachineConfigPool of OpenShift has.
	poolLabel = "pools.operator.machineconfiguration.openshift.io/"
	// suffixAnnotation contains the number of the MachineConfig that OpenShift generated, which decides the order of
	// merging.
	suffixAnnotation = "machineconfiguration.openshift.io/mc-name-suffix"
	// for the kubelet's option --config-dir
	kubeletDropIns = "/etc/kubernetes/kubelet.conf.d/"
	// how many documents of one kind a pool may have
	maxSettings = 10
)

func (o object) isSettings() bool {
	return o.is(mcfgv1.GroupName, kubeletKind) || o.is(mcfgv1.GroupName, runtimeKind)
}

// suffix returns the number that OpenShift gave to the object, 0 for the first one.
func (o object) suffix() int {
	meta, _ := o.content["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, _ := annotations[suffixAnnotation].(string)
	n, _ := strconv.Atoi(text) // The annotation of the first object is empty.
	return n
}

// selectedPools are in lexical order.
func (a *adoption) selectedPools(o object) ([]string, error) {
	var selector *metav1.LabelSelector
	if o.kind == kubeletKind {
		var kc mcfgv1.KubeletConfig
		if err := strictly(o, &kc); err != nil {
			return nil, err
		}
		selector = kc.Spec.MachineConfigPoolSelector
	} else {
		var crc mcfgv1.ContainerRuntimeConfig
		if err := strictly(o, &crc); err != nil {
			return nil, err
		}
		selector = crc.Spec.MachineConfigPoolSelector
	}
	if bad := badName(o.name); bad != "" {
		return nil, errors.New(bad)
	}
	if err := checkSelector("machineConfigPoolSelector", selector); err != nil {
		return nil, fmt.Errorf("%w, or move the object into a pool's directory and remove the selector", err)
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("reading spec.machineConfigPoolSelector: %w", err)
	}
	known := a.poolLabels()
	var out []string
	for _, pool := range slices.Sorted(maps.Keys(known)) {
		if s.Matches(known[pool]) {
			out = append(out, pool)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("its machineConfigPoolSelector selects none of the pools %s: import its "+
			"MachineConfigPool too, or move the object into a pool's directory and remove the selector",
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return out, nil
}

// poolLabels returns the labels of the pools; those of OpenShift for a pool without a MachineConfigPool in the inputs.
func (a *adoption) poolLabels() map[string]labels.Set {
	out := map[string]labels.Set{}
	for _, pool := range append(slices.Collect(maps.Keys(a.documents)), masterPool, workerPool) {
		out[pool] = labels.Set{poolLabel + pool: ""}
	}
	for pool, p := range a.pools {
		out[pool] = labels.Set(p.Labels)
	}
	return out
}

// settingsDocument returns an object's document for a pool, and the MachineConfig that it becomes.
func (a *adoption) settingsDocument(i int, pool string) (document, *mcfgv1.MachineConfig, error) {
	o := a.objects[i]
	name, word := "99-"+pool+"-generated-kubelet", "kubelet"
	if o.kind == runtimeKind {
		name, word = "99-"+pool+"-generated-containerruntime", "crio"
	}
	n := 0
	for _, d := range a.documents[pool] {
		switch {
		case a.objects[d.config.index].kind == o.kind:
			n++
		case d.config.name == name:
			return document{}, nil, fmt.Errorf("the MachineConfig %s, which a controller made of it, is imported "+
				"already; keep one of the two", name)
		}
	}
	if n == maxSettings {
		return document{}, nil, fmt.Errorf("a pool has at most %d documents of kind %s; join some of them", maxSettings,
			o.kind)
	}
	if n > 0 {
		name += "-" + strconv.Itoa(n)
	}
	body, err := Encode(settingsBody(o))
	if err != nil {
		return document{}, nil, err
	}
	c, findings := translated(o.kind, pool, body)
	if origin.Fatal(findings) {
		return document{}, nil, rejection(findings)
	}
	spec, err := c.Spec()
	if err != nil {
		return document{}, nil, fmt.Errorf("writing it as a MachineConfig: %w", err)
	}
	file := fmt.Sprintf("%s-%d-%s.yaml", word, n, FileName(o.name))
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{v1alpha1.RoleLabel: pool},
	}, Spec: spec}
	return document{config: config{index: i, name: name, pool: pool, spec: c}, file: file, body: body}, mc, nil
}

// settingsBody leaves the selector out, because the directory names the pool.
func settingsBody(o object) *yaml.Node {
	spec, _ := o.content["spec"].(map[string]any)
	spec = without(spec, "machineConfigPoolSelector")
	old, _ := o.content["metadata"].(map[string]any)
	set, _ := old["annotations"].(map[string]any)
	annotations := map[string]any{}
	for k, v := range set {
		if own := strings.HasPrefix(k, mcfgv1.GroupName+"/") || strings.HasPrefix(k, "kubectl.kubernetes.io/"); !own {
			annotations[k] = v
		}
	}
	_, hasFile := annotations[kinds.KubeletPathAnnotation]
	switch {
	case (o.kind == runtimeKind || o.isAboutRegistries()) && annotations[v1alpha1.ContainerRuntimeAnnotation] == nil:
		annotations[v1alpha1.ContainerRuntimeAnnotation] = "crio"
	case o.kind == kubeletKind && !hasFile && (spec["kubeletConfig"] != nil || spec["tlsSecurityProfile"] != nil):
		annotations[kinds.KubeletPathAnnotation] = kubeletDropIns + "50-" + FileName(o.name) + ".conf"
	}
	meta := map[string]any{"name": o.name}
	if namespace, ok := old["namespace"].(string); ok {
		meta["namespace"] = namespace
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	return Mapping(Key("apiVersion"), Key(o.apiVersion), Key("kind"), Key(o.kind),
		Key("metadata"), Verbatim(meta), Key("spec"), Verbatim(spec))
}

// translated translates a document as the transpiler does for a pool.
func translated(kind, pool string, body []byte) (machineconfig.Config, []origin.Finding) {
	if kind == kubeletKind {
		out, findings := kinds.TranslateKubelet(kinds.ObjectInput{Pool: pool, Source: body})
		return out.Config, findings
	}
	out, findings := kinds.TranslateContainerRuntime(kinds.ObjectInput{Pool: pool, Source: body})
	return out.Config, findings
}

func rejection(findings []origin.Finding) error {
	var all []error
	for _, f := range findings {
		if !f.Warning {
			all = append(all, errors.New(f.Message))
		}
	}
	return errors.Join(all...)
}
