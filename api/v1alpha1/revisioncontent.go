package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RevisionContent is a part of what one revision of a GitSource puts on the cluster. The controller restores the revision
// from it, without the repository, where a newer one could not be applied whole.
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

// RevisionContentSpec is one part of the content. It never changes.
type RevisionContentSpec struct {
	// Source is the GitSource whose content this is.
	Source string `json:"source"`
	// Digest of the whole content, `sha256:<hex>`; revisions with the same objects share it.
	Digest string `json:"digest"`
	// Part counts from 0; Parts is how many there are.
	Part int32 `json:"part"`
	// Parts is how many parts the content has.
	// +kubebuilder:validation:Minimum=1
	Parts int32 `json:"parts"`
	// Data is this part of the gzip-compressed JSON of the objects.
	Data []byte `json:"data"`
}
