// Package v1alpha1 has the project's own kinds and the names that its processes share: annotation and label keys,
// condition types and reasons.
//
// In: nothing. Out: types and constants. Never: behaviour beyond formatting a value of its own.
//
// +kubebuilder:object:generate=true
// +groupName=bunsen.dev
package v1alpha1
