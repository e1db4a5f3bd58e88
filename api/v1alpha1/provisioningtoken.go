package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ProvisioningToken lets new machines of one pool read their first config from the server. `bunsen token create`
// creates it and prints the token once. The object keeps only the hash of the token. The object's name is the token's
// id, which is not secret and appears in logs.
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

// ProvisioningTokenSpec defines what a token grants. It cannot be changed, except that Revoked can be set once.
//
// +kubebuilder:validation:XValidation:rule="self.pool == oldSelf.pool && self.hash == oldSelf.hash && self.expires == oldSelf.expires && (has(self.node) ? self.node : \"\") == (has(oldSelf.node) ? oldSelf.node : \"\") && (has(self.uses) ? self.uses : 0) == (has(oldSelf.uses) ? oldSelf.uses : 0)",message="a token cannot be changed: revoke it and create another"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.revoked) && oldSelf.revoked) || (has(self.revoked) && self.revoked)",message="a revoked token stays revoked: create another"
type ProvisioningTokenSpec struct {
	// Pool is the only pool whose config the token can read.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool"`
	// Node is the name of the only node that can use the token. Empty means any machine of the pool. The server sends
	// the secrets of a config only for a token with a node.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// Expires is the time from which the token is invalid.
	Expires metav1.Time `json:"expires"`
	// Uses is how many times the server sends a config for the token. 0 means without limit.
	// +kubebuilder:validation:Minimum=0
	Uses int32 `json:"uses,omitempty"`
	// Hash is the SHA-256 of the token's secret part, in hexadecimal.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	Hash string `json:"hash"`
	// Revoked makes the token invalid at once.
	Revoked bool `json:"revoked,omitempty"`
}

// ProvisioningTokenStatus is how machines used a token. The server writes it.
type ProvisioningTokenStatus struct {
	// Used is how many times the server sent a config for the token.
	Used int32 `json:"used,omitempty"`
	// LastUsed is the time of the last use.
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
	// Recent lists the last uses, the newest last.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Recent []TokenUse `json:"recent,omitempty"`
}

// RecentTokenUses is how many uses a token's status contains.
const RecentTokenUses = 10

// TokenUse is one use of a token: the server sent a config.
type TokenUse struct {
	// Time is when the server answered.
	Time metav1.Time `json:"time"`
	// Address is the client's IP address, without a port.
	Address string `json:"address"`
	// Config is the name of the rendered config that the server sent.
	Config string `json:"config"`
	// Commit is the revision that the config was rendered from. Empty if it came from no repository.
	Commit string `json:"commit,omitempty"`
	// ID is random. By it, a server recognizes its own write of which it got no answer.
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id,omitempty"`
}
