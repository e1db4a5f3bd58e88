package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// NodeContentPath, followed by the name of a Content, is where a node reads the bytes of that file. The node
	// identifies itself as for NodeConfigPath, and a config that it may run names the file.
	NodeContentPath = "/node/content/"
	// ContentPath, followed by the name of a Content, is where a new machine reads the bytes of that file, with the
	// grant in its config.
	ContentPath = "/content/"
	// ContentArtifact follows ContentPath for a file in an OCI registry, before REGISTRY/NAME@sha256:HEX.
	ContentArtifact = "oci/"
	// ContentGrantScheme precedes the grant in the header Authorization.
	ContentGrantScheme = "Bunsen-Content "
	// ContentGrantQuery is the part of the query with the grant, for versions of Ignition without headers.
	ContentGrantQuery = "grant"
)

// Content is a large file of a repository. Configs name it by its hash, which is the name of this object. The
// controller creates and deletes these objects, and ContentChunks with the bytes; do not edit them. Nodes read the file
// from the server.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=bunsen
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^sha512-[0-9a-f]{128}$')",message="the name of a Content is the hash of the file: sha512-HEX"
type Content struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ContentSpec `json:"spec"`
}

// ContentList is a list of Content.
//
// +kubebuilder:object:root=true
type ContentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Content `json:"items"`
}

// ContentSpec says where the bytes of the file are. No user can change it.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Content cannot be changed: its name is the hash of the file"
// +kubebuilder:validation:XValidation:rule="has(self.chunks) != has(self.artifact)",message="the bytes are either in chunks or in an artifact"
// +kubebuilder:validation:XValidation:rule="!has(self.chunks) || self.size <= self.chunks.size() * 524288 && self.size > (self.chunks.size() - 1) * 524288",message="each chunk has 524288 bytes, and only the last chunk can have fewer"
type ContentSpec struct {
	// Size of the file in bytes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=268435456
	Size int64 `json:"size"`
	// Chunks are the names of the ContentChunks, in order. Each one has 512 KiB of the file, and the last one has the
	// rest.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:Pattern=`^sha256-[0-9a-f]{64}$`
	// +kubebuilder:validation:items:MaxLength=71
	// +listType=atomic
	// +optional
	Chunks []string `json:"chunks,omitempty"`
	// Artifact is the address of the file in an OCI registry: oci://REGISTRY/NAME@sha256:HEX. The file is the only
	// layer of the artifact.
	// +kubebuilder:validation:MaxLength=600
	// +kubebuilder:validation:Pattern=`^oci://[a-z0-9.:\[\]-]+/[a-z0-9/._-]+@sha256:[0-9a-f]{64}$`
	// +optional
	Artifact string `json:"artifact,omitempty"`
}

// ContentChunk is a part of the bytes of files. Its name is the hash of these bytes, so several files can share a part.
// The controller creates and deletes these objects; do not edit them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Gzip",type=boolean,JSONPath=`.spec.gzip`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^sha256-[0-9a-f]{64}$')",message="the name of a ContentChunk is the hash of its bytes: sha256-HEX"
type ContentChunk struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ContentChunkSpec `json:"spec"`
}

// ContentChunkList is a list of ContentChunk.
//
// +kubebuilder:object:root=true
type ContentChunkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ContentChunk `json:"items"`
}

// ContentChunkSpec is a part of the bytes of files. No user can change it.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a ContentChunk cannot be changed: its name is the hash of its bytes"
type ContentChunkSpec struct {
	// Gzip is true if data is compressed.
	// +optional
	Gzip bool `json:"gzip,omitempty"`
	// Data is base64. It has at most 512 KiB, before and after decompression.
	// +kubebuilder:validation:Format=""
	// +kubebuilder:validation:MaxLength=699052
	Data []byte `json:"data"`
}
