package revision

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// objectDigest is for a version of a live object.
type objectDigest struct {
	version, digest string
}

// OfObject returns the digest of the fields that the repository requires of a live pool or policy, if it has all of
// them; "" if a user changed them or no GitSource applied it. Fields that the repository does not set, such as defaults
// of the API server and fields of other users, do not count.
//
// WantedAnnotation has the required fields. If a user forges it, its digest differs from that in the inventory.
func (d *Digests) OfObject(live *unstructured.Unstructured) string {
	if digest, ok := d.Known(live.GetUID(), live.GetResourceVersion()); ok {
		return digest
	}
	digest := ofObject(live)
	if live.GetUID() != "" && live.GetResourceVersion() != "" {
		d.objects.Store(live.GetUID(), objectDigest{live.GetResourceVersion(), digest})
	}
	return digest
}

// Known returns what OfObject computed for a version of a live object, which then need not be converted.
func (d *Digests) Known(uid types.UID, version string) (digest string, known bool) {
	v, ok := d.objects.Load(uid)
	if !ok || uid == "" || version == "" || v.(objectDigest).version != version {
		return "", false
	}
	return v.(objectDigest).digest, true
}

func ofObject(live *unstructured.Unstructured) string {
	text := live.GetAnnotations()[v1alpha1.WantedAnnotation]
	if text == "" {
		return ""
	}
	want := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &want.Object); err != nil || want.Object == nil {
		return ""
	}
	if want.GetKind() != live.GetKind() || want.GetName() != live.GetName() ||
		!contains(asAny(live.GetLabels()), asAny(want.GetLabels())) ||
		!contains(asAny(live.GetAnnotations()), asAny(want.GetAnnotations())) {
		return ""
	}
	have, err := typed(live)
	if err != nil {
		return ""
	}
	wanted, err := typed(want)
	if err != nil || !contains(have["spec"], shape(wanted["spec"], want.Object["spec"])) {
		return ""
	}
	return digestOf([]byte(text))
}

// typed converts an object to the JSON form of its Go type, in which equal values have equal texts: 90m becomes
// 1h30m0s.
func typed(u *unstructured.Unstructured) (map[string]any, error) {
	into, ok := map[string]any{
		KindMachineConfigPool:    &mcfgv1.MachineConfigPool{},
		KindMachineConfiguration: &operatorv1.MachineConfiguration{},
		KindDriftPolicy:          &v1alpha1.DriftPolicy{}, KindRolloutPolicy: &v1alpha1.RolloutPolicy{},
		KindPinnedImageSet: &mcfgv1.PinnedImageSet{},
	}[u.GetKind()]
	if !ok {
		return nil, fmt.Errorf("reading %s %q: no repository holds this kind", u.GetKind(), u.GetName())
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return nil, fmt.Errorf("reading %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(into)
	if err != nil {
		return nil, fmt.Errorf("reading %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	return out, nil
}

// shape takes from a typed value the fields that the raw one has. One that the type omits because it is zero becomes
// nil.
func shape(value, raw any) any {
	switch raw := raw.(type) {
	case map[string]any:
		have, _ := value.(map[string]any)
		out := map[string]any{}
		for k, v := range raw {
			out[k] = shape(have[k], v)
		}
		return out
	case []any:
		have, ok := value.([]any)
		if !ok || len(have) != len(raw) {
			return value
		}
		out := make([]any, len(raw))
		for i := range raw {
			out[i] = shape(have[i], raw[i])
		}
		return out
	}
	return value
}

// Replace replaces the differing top-level fields of a live object's spec. A server-side apply would keep values that
// other users added to them.
func Replace(live, want *unstructured.Unstructured) {
	spec, _, _ := unstructured.NestedMap(live.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	wanted, _, _ := unstructured.NestedMap(want.Object, "spec")
	for field, v := range wanted {
		if !contains(map[string]any{field: spec[field]}, map[string]any{field: v}) {
			spec[field] = v
		}
	}
	live.Object["spec"] = spec
}

// Wanted returns the annotation with the fields that the repository requires of an object, and its digest.
func Wanted(object *unstructured.Unstructured) (text, digest string, err error) {
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return "", "", err
	}
	return string(raw), digestOf(raw), nil
}

func asAny(m map[string]string) any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// isSelector reports whether a field is a label selector, which must equal the repository's: an addition would change
// which objects it selects.
func isSelector(field string) bool { return strings.HasSuffix(strings.ToLower(field), "selector") }

func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if e = withoutEmpty(e); e != nil {
				out[k] = e
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutEmpty(v[i])
		}
		return out
	}
	return v
}

// contains reports whether live has every field of want, with the same value.
func contains(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if len(want) == 0 {
			return ok || live == nil
		}
		for k, v := range want {
			ok = ok && (contains(have[k], v) && (!isSelector(k) || reflect.DeepEqual(withoutEmpty(have[k]),
				withoutEmpty(v))))
		}
		return ok
	case []any:
		have, ok := live.([]any)
		if !ok || len(have) != len(want) {
			return len(have) == 0 && len(want) == 0
		}
		for i := range want {
			ok = ok && contains(have[i], want[i])
		}
		return ok
	case nil:
		return isZero(live)
	default:
		return equalValue(live, want)
	}
}

func isZero(v any) bool {
	v = withoutEmpty(v)
	return v == nil || reflect.ValueOf(v).IsZero()
}

// equalValue compares scalars: a number is a float64 from JSON, and an int64 from a Go type.
func equalValue(live, want any) bool {
	a, isNumber := number(live)
	b, alsoNumber := number(want)
	if isNumber && alsoNumber {
		return a == b
	}
	return reflect.DeepEqual(live, want)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	}
	return 0, false
}

// Key returns the key of an object in lists: `Kind/name`.
func Key(kind, name string) string { return kind + "/" + name }

// SplitKey is the inverse of Key.
func SplitKey(key string) (kind, name string) {
	kind, name, _ = strings.Cut(key, "/")
	return kind, name
}
