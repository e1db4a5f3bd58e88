package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RevisionContent is one part of the objects of a GitSource's revision. The controller creates and deletes these
// objects; do not edit them. If it cannot apply a newer revision completely, it restores the earlier one from them,
// without the repository.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=bunsen
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`
// +kubebuilder:printcolumn:name="Part",type=integer,JSONPath=`.spec.part`
// +kubebuilder:printcolumn:name="Parts",type=integer,JSONPath=`.spec.parts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RevisionContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RevisionContentSpec `json:"spec"`
}

// RevisionContentList is a list of RevisionContent.
//
// +kubebuilder:object:root=true
type RevisionContentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RevisionContent `json:"items"`
}

// RevisionContentSpec is one part of the content. The controller never changes it.
type RevisionContentSpec struct {
	// Source is the name of the GitSource.
	Source string `json:"source"`
	// Digest is the digest of all parts together, `sha256:<hex>`. Revisions with the same objects share it.
	Digest string `json:"digest"`
	// Part is the number of this part, counted from 0.
	Part int32 `json:"part"`
	// Parts is the number of parts of the content.
	// +kubebuilder:validation:Minimum=1
	Parts int32 `json:"parts"`
	// Data is this part of the objects, as gzip-compressed JSON.
	Data []byte `json:"data"`
}
