package revision

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Content has the objects that one revision of a GitSource applies.
type Content struct {
	// the fragments, of whose metadata only the name, the role label and FileAnnotation count
	Configs []*mcfgv1.MachineConfig
	// those of `cluster/`, as in the repository
	Objects []*unstructured.Unstructured
	// live objects before the next revision took them over
	Foreign []*unstructured.Unstructured
}

// After returns the content to apply after base: the revision in force, or the state before an interrupted apply. It
// includes objects of base that c does not name: the foreign ones, and the source's own if it does not prune.
func (c Content) After(base Content, prunes bool) Content {
	named := c.names()
	if !prunes {
		c.Configs = append(slices.Clone(c.Configs), slices.DeleteFunc(slices.Clone(base.Configs),
			func(mc *mcfgv1.MachineConfig) bool {
				return named[Key(KindMachineConfig, mc.Name)]
			})...)
		c.Objects = append(slices.Clone(c.Objects), others(base.Objects, named)...)
	}
	c.Foreign = append(slices.Clone(c.Foreign), others(base.Foreign, named)...)
	return c
}

// WithForeign adds objects that the source takes over, in their present state, unless an interrupted apply created
// them, or the content already has their earlier state.
func (c Content) WithForeign(objects []*unstructured.Unstructured, created []string) Content {
	named := c.names()
	for _, key := range created {
		named[key] = true
	}
	c.Foreign = append(slices.Clone(c.Foreign), others(objects, named)...)
	return c
}

func (c Content) names() map[string]bool {
	out := map[string]bool{}
	for _, mc := range c.Configs {
		out[Key(KindMachineConfig, mc.Name)] = true
	}
	for _, o := range slices.Concat(c.Objects, c.Foreign) {
		out[Key(o.GetKind(), o.GetName())] = true
	}
	return out
}

// others are not named.
func others(objects []*unstructured.Unstructured, named map[string]bool) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return named[Key(o.GetKind(), o.GetName())]
	})
}

// Inventory lists every object of the content.
func (c Content) Inventory() ([]v1alpha1.InventoryEntry, error) {
	var out []v1alpha1.InventoryEntry
	for _, mc := range c.Configs {
		digest, err := Digest(mc)
		if err != nil {
			return nil, err
		}
		out = append(out, v1alpha1.InventoryEntry{
			Kind: KindMachineConfig, Name: mc.Name, Digest: digest,
			Role: mc.Labels[v1alpha1.RoleLabel],
		})
	}
	for _, o := range c.Objects {
		_, digest, err := Wanted(o)
		if err != nil {
			return nil, err
		}
		out = append(out, v1alpha1.InventoryEntry{Kind: o.GetKind(), Name: o.GetName(), Digest: digest})
	}
	SortInventory(out)
	return out, nil
}

// SortInventory orders entries by kind, then name. Each reconciliation sorts all entries, so the order makes no texts.
func SortInventory(entries []v1alpha1.InventoryEntry) {
	slices.SortFunc(entries, func(a, b v1alpha1.InventoryEntry) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
}

type storedContent struct {
	Configs []storedConfig   `json:"configs,omitempty"`
	Objects []map[string]any `json:"objects,omitempty"`
	Foreign []map[string]any `json:"foreign,omitempty"`
}

// storedConfig is a fragment as JSON.
type storedConfig struct {
	Name  string                   `json:"name"`
	Role  string                   `json:"role"`
	Files string                   `json:"files,omitempty"`
	Spec  mcfgv1.MachineConfigSpec `json:"spec"`
	// of secret paths
	Marks string `json:"marks,omitempty"`
}

// partSize: far below the API server's limit for one object
const partSize = 512 << 10

// mostContent: unpacked, for Decode
const mostContent = 256 << 20

// Encode returns the content as the parts of RevisionContent objects, and its digest, which depends only on the
// objects.
func Encode(c Content) (parts [][]byte, digest string, err error) {
	stored := storedContent{}
	for _, mc := range c.Configs {
		stored.Configs = append(stored.Configs, storedConfig{
			mc.Name, mc.Labels[v1alpha1.RoleLabel],
			mc.Annotations[v1alpha1.FileAnnotation], mc.Spec, mc.Annotations[v1alpha1.SecretPathsAnnotation],
		})
	}
	for _, o := range c.Objects {
		stored.Objects = append(stored.Objects, o.Object)
	}
	for _, o := range c.Foreign {
		stored.Foreign = append(stored.Foreign, o.Object)
	}
	slices.SortFunc(stored.Configs, func(a, b storedConfig) int { return strings.Compare(a.Name, b.Name) })
	raw, err := json.Marshal(stored)
	if err != nil {
		return nil, "", fmt.Errorf("writing the content of a revision: %w", err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		return nil, "", fmt.Errorf("compressing the content of a revision: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("compressing the content of a revision: %w", err)
	}
	return slices.Collect(slices.Chunk(packed.Bytes(), partSize)), digestOf(raw), nil
}

// Decode is the inverse of Encode. It fails unless the parts are the whole content with the digest.
func Decode(parts [][]byte, digest string) (Content, error) {
	r, err := gzip.NewReader(bytes.NewReader(bytes.Join(parts, nil)))
	if err != nil {
		return Content{}, fmt.Errorf("unpacking the content of a revision: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(r, mostContent))
	if err != nil {
		return Content{}, fmt.Errorf("unpacking the content of a revision: %w", err)
	}
	if digestOf(raw) != digest {
		return Content{}, errors.New("reading the content of a revision: its digest does not match: a user changed a " +
			"RevisionContent")
	}
	var stored storedContent
	if err := json.Unmarshal(raw, &stored); err != nil {
		return Content{}, fmt.Errorf("reading the content of a revision: %w", err)
	}
	var out Content
	for _, s := range stored.Configs {
		mc := &mcfgv1.MachineConfig{
			TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: KindMachineConfig},
			ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{v1alpha1.RoleLabel: s.Role}},
			Spec:       s.Spec,
		}
		if s.Files != "" {
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.FileAnnotation, s.Files)
		}
		if s.Marks != "" {
			metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.SecretPathsAnnotation, s.Marks)
		}
		out.Configs = append(out.Configs, mc)
	}
	if out.Objects, err = readObjects(stored.Objects); err != nil {
		return Content{}, err
	}
	out.Foreign, err = readObjects(stored.Foreign)
	return out, err
}

func readObjects(objects []map[string]any) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, o := range objects {
		u, err := toUnstructured(o)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// toUnstructured converts numbers as the Kubernetes libraries expect.
func toUnstructured(object map[string]any) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("reading an object of a revision: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("reading an object of a revision: %w", err)
	}
	return u, nil
}
