package v1alpha1

import (
	"bytes"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CordonManager is the field manager of Bunsen's cordons.
const CordonManager = ControllerComponent

// CordonOwners returns the entries of a Node's managed fields that own spec.unschedulable. They name who cordoned it:
// an uncordon removes the field from all owners.
func CordonOwners(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(all), func(e metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		// Most entries do not have it, and each event of a Node has several.
		if e.FieldsV1 == nil || !bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:unschedulable"`)) ||
			json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
			return true
		}
		_, owns := fields.Spec["f:unschedulable"]
		return !owns
	})
}

// IsCordonReplaced reports whether somebody uncordoned a cordoned Node that Bunsen had cordoned, and cordoned it again:
// Bunsen's annotation is there, and others own the cordon. It is false if the owners are unknown.
func IsCordonReplaced(o metav1.Object) bool {
	owners := CordonOwners(o.GetManagedFields())
	return o.GetAnnotations()[CordonedAnnotation] != "" && len(owners) > 0 &&
		!slices.ContainsFunc(owners, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == CordonManager })
}
