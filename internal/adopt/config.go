package adopt

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v35 "github.com/coreos/ignition/v2/config/v3_5"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// config is a MachineConfig that Import writes to the repository.
type config struct {
	// index is the index of the object in the inputs.
	index int
	name  string
	pool  string
	// spec is the typed form. spec has no images if a controller generated the MachineConfig, because the cluster's
	// images replace them.
	spec machineconfig.Config
}

// addMachineConfig imports or skips a MachineConfig.
func addMachineConfig(a *adoption, i int) {
	o := a.objects[i]
	mc, unknown, err := decode(o)
	role := mc.Labels[v1alpha1.RoleLabel]
	_, generated := mc.Annotations[v1alpha1.GeneratedByAnnotation]
	switch {
	case strings.HasPrefix(o.name, "rendered-"):
		a.out.Objects[i].Skipped = "it is what a pool was rendered to; the repository holds what it was rendered from"
		a.rendered++
		return
	case generated && !a.opts.Generated:
		a.skip(i, "generated", "a controller wrote this object and replaces it with each of its releases. To import "+
			"its present content, use `--generated`; the content then no longer follows those releases")
		return
	case mc.Labels[v1alpha1.NodeTableLabel] != "":
		a.skip(i, "single-nodes", "an import does not read the documents of single nodes back; copy `nodes.yaml` and "+
			"`nodes/` from the repository of the pool")
		return
	case a.opts.Pools != nil && !slices.Contains(a.opts.Pools, role) && err == nil:
		a.skip(i, "other-pool", "its role is %q, and --pool selects only %s", role, strings.Join(a.opts.Pools, ", "))
		return
	case err == nil:
		err = refused(o, role)
	}
	if err == nil {
		mc.Spec, err = a.opts.Upgrade(mc.Spec)
	}
	c := config{index: i, name: o.name, pool: role}
	if err == nil {
		c.spec, err = machineconfig.Parse(mc.Spec)
	}
	if err == nil {
		err = errors.Join(machineconfig.Check(c.spec)...)
	}
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	reportLeftOut(a, i, mc, unknown)
	a.out.Kept = append(a.out.Kept, mc.DeepCopy())
	if generated {
		c.spec.OSImageURL, c.spec.ExtensionsImage = "", ""
	}
	a.out.Objects[i].Pool = role
	a.documents[role] = append(a.documents[role], documentsOf(a, c)...)
}

// decode reads an object as a MachineConfig, and lists the fields that a MachineConfig does not have.
func decode(o object) (mc mcfgv1.MachineConfig, unknown []string, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.content, &mc, true)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return mc, nil, mistyped(o, err)
	}
	for _, e := range strict.Errors() {
		unknown = append(unknown, e.Error())
	}
	return mc, unknown, nil
}

// mistyped names the field of an object that has a value of the wrong type; the errors of the converter name no field.
func mistyped(o object, err error) error {
	if err == nil {
		return nil
	}
	var typed *json.UnmarshalTypeError
	raw, jsonErr := json.Marshal(o.content)
	if jsonErr == nil && errors.As(json.Unmarshal(raw, &mcfgv1.MachineConfig{}), &typed) && typed.Field != "" {
		return fmt.Errorf("it is no MachineConfig: %s is a %s and should be of type %s", typed.Field, typed.Value,
			typed.Type)
	}
	return fmt.Errorf("it is no MachineConfig: %w", err)
}

// refused returns the reason why an object is not allowed in a repository.
func refused(o object, role string) error {
	switch bad := badName(o.name); {
	case bad != "":
		return errors.New(bad)
	case role == "":
		return fmt.Errorf("it has no label %s, which says whose it is; set it to a pool's name", v1alpha1.RoleLabel)
	case len(validation.IsDNS1123Label(role)) > 0:
		return fmt.Errorf("its role %q is no name for a pool: use lower-case letters, digits and -", role)
	}
	return nil
}

// reportLeftOut reports the parts of a MachineConfig that the repository does not have.
func reportLeftOut(a *adoption, i int, mc mcfgv1.MachineConfig, unknown []string) {
	var labels []string
	for _, l := range slices.Sorted(maps.Keys(mc.Labels)) {
		if l != v1alpha1.RoleLabel && l != v1alpha1.SourceLabel {
			labels = append(labels, l)
		}
	}
	if len(labels) > 0 {
		a.warn(i, "label", "the labels %s are left out: of a document only its name and role reach the cluster; "+
			"check that no pool selects by them", FirstNames(labels))
	}
	if source := mc.Labels[v1alpha1.SourceLabel]; source != "" {
		a.warn(i, "has-source", "it comes from a repository already, by the GitSource %s; better take that", source)
	}
	if _, rep, err := v35.ParseCompatibleVersion(mc.Spec.Config.Raw); err == nil {
		for _, e := range rep.Entries {
			if strings.HasPrefix(strings.ToLower(e.Message), "unused key ") {
				unknown = append(unknown, e.Context.String())
			}
		}
	}
	if len(unknown) > 0 {
		a.warn(i, "unknown-key", "left out, as no program reads it, which may be a typing error: %s",
			FirstNames(unknown))
	}
	if mc.Annotations[v1alpha1.GeneratedByAnnotation] != "" && mc.Spec.OSImageURL+
		mc.Spec.BaseOSExtensionsContainerImage != "" {
		a.note(i, "image", "its images are left out: those of a generated MachineConfig give way to the cluster's")
	}
}
