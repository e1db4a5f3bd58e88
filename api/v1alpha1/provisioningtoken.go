package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProvisioningToken lets new machines of one pool fetch their config. The token itself is shown once, when it is made; what
// is kept is its hash. Its name is the token's id, which is no secret and stands in logs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=bunsen
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expires`
// +kubebuilder:printcolumn:name="Uses",type=integer,JSONPath=`.spec.uses`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Last used",type=date,JSONPath=`.status.lastUsed`
// +kubebuilder:printcolumn:name="Revoked",type=boolean,JSONPath=`.spec.revoked`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ProvisioningToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProvisioningTokenSpec   `json:"spec"`
	Status ProvisioningTokenStatus `json:"status,omitempty"`
}

// ProvisioningTokenList is a list of ProvisioningToken.
//
// +kubebuilder:object:root=true
type ProvisioningTokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProvisioningToken `json:"items"`
}

// ProvisioningTokenSpec says what a token is good for. Nothing of it changes but Revoked, and that only once.
//
// +kubebuilder:validation:XValidation:rule="self.pool == oldSelf.pool && self.hash == oldSelf.hash && self.expires == oldSelf.expires && (has(self.node) ? self.node : \"\") == (has(oldSelf.node) ? oldSelf.node : \"\") && (has(self.uses) ? self.uses : 0) == (has(oldSelf.uses) ? oldSelf.uses : 0)",message="a token stays what it was made as: revoke it and make another"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.revoked) && oldSelf.revoked) || (has(self.revoked) && self.revoked)",message="a revoked token stays revoked: make another"
type ProvisioningTokenSpec struct {
	// Pool is the only pool whose config the token gets.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool"`
	// Node is the one machine that the token is for; empty for any machine of the pool. Secrets of the config are served to
	// tokens of a node only.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// Expires is when the token ends.
	Expires metav1.Time `json:"expires"`
	// Uses is how often a config is served to the token; 0 is any number.
	// +kubebuilder:validation:Minimum=0
	Uses int32 `json:"uses,omitempty"`
	// Hash is the SHA-256 of the token's secret part, in hexadecimal.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	Hash string `json:"hash"`
	// Revoked ends the token at once.
	Revoked bool `json:"revoked,omitempty"`
}

// ProvisioningTokenStatus is what became of a token. Writer: the server.
type ProvisioningTokenStatus struct {
	// Used is how often a config was served to the token.
	Used int32 `json:"used,omitempty"`
	// LastUsed is when that was last.
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
	// Recent are the last uses, the newest last.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Recent []TokenUse `json:"recent,omitempty"`
}

// RecentTokenUses is how many uses a token's status keeps.
const RecentTokenUses = 10

// TokenUse is one config that was served to a token.
type TokenUse struct {
	// Time of the answer.
	Time metav1.Time `json:"time"`
	// Address that asked, without a port.
	Address string `json:"address"`
	// Config is the rendered config that was served.
	Config string `json:"config"`
	// Commit is the revision that the config has the content of; empty where it came from no repository.
	Commit string `json:"commit,omitempty"`
}
