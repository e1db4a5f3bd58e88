package v1alpha1

import "time"

// A config can refer to Secrets and ConfigMaps of SecretsNamespace, and can contain encrypted files. The server
// resolves both for nodes. See docs/secrets.md.
const (
	// SecretsNamespace has the Secrets and ConfigMaps that configs may refer to. Only the server reads them.
	SecretsNamespace = "bunsen-secrets"
	// SecretPoolsAnnotation of such an object lists the pools whose nodes may get its values, separated by commas; `*`
	// is all pools. Without it, no pool gets them.
	SecretPoolsAnnotation = TrustPoolsAnnotation
	// AgeKeysSecret is the Secret of ServerNamespace with the age keys for encrypted files. Each value has one or more
	// keys. Only the server reads it.
	AgeKeysSecret = "bunsen-age"
	// SecretsConfigMap is the ConfigMap of ServerNamespace in which the server publishes the SecretsRevision of each
	// rendered config that has references or encrypted files. The keys are names of rendered configs, the values JSON.
	SecretsConfigMap = "machine-config-server-secrets"
	// DesiredSecretsAnnotation of a Node is the revision of the secrets of its desired config. The controller sets it
	// together with DesiredConfigAnnotation. Configs without references have none.
	DesiredSecretsAnnotation = "bunsen.dev/desiredSecrets"
	// CurrentSecretsAnnotation of a Node is the revision of the secrets in force. The daemon sets it.
	CurrentSecretsAnnotation = "bunsen.dev/currentSecrets"
	// NodeSecretsPath with the name of a rendered config is where a node reads its NodeSecrets from the server, as
	// JSON. It identifies itself as for NodeConfigPath.
	NodeSecretsPath = "/node/secrets/"
)

// SecretsRevision says which values a rendered config has, without the values.
//
// +kubebuilder:object:generate=false
type SecretsRevision struct {
	// Revision identifies the resolved contents. It is a keyed digest: without the server's key it says nothing about
	// the values. Empty while the contents were never resolved, so that no node can get the config.
	Revision string `json:"revision,omitempty"`
	// Changes are the last change of each object that the config refers to, newest last, at most MaxSecretChanges.
	Changes []SecretChange `json:"changes,omitempty"`
	// Problems are the references and encrypted files that the server cannot resolve now. If Revision is set, nodes
	// keep the values of that revision.
	Problems []SecretProblem `json:"problems,omitempty"`
	// Own are the revisions of the configs of single nodes; nil for a config that all nodes of a pool run. Then
	// Revision identifies all these revisions together.
	Own *OwnSecrets `json:"own,omitempty"`
}

// MaxSecretChanges is how many changes a SecretsRevision has at most.
const MaxSecretChanges = 10

// MaxSecretBytes is the maximum size of the resolved files of a config together.
const MaxSecretBytes = 4 << 20

// SecretChange is the last change of a Secret or ConfigMap.
//
// +kubebuilder:object:generate=false
type SecretChange struct {
	// Object is secret:NAME or configmap:NAME.
	Object string `json:"object"`
	// Time of the change, as the API server recorded it.
	Time time.Time `json:"time"`
	// Manager is the field manager that made the change, as the API server recorded it.
	Manager string `json:"manager,omitempty"`
}

// Reasons of a SecretProblem.
const (
	// SecretNotFound says that the object or its key does not exist.
	SecretNotFound = "NotFound"
	// SecretNotForPool says that the object does not list the pool.
	SecretNotForPool = "NotForPool"
	// SecretNoKey says that the server has no key for an encrypted file.
	SecretNoKey = "NoKey"
	// SecretKeyService says that the server's key service did not decrypt the data key of a file. The server asks
	// again.
	SecretKeyService = "KeyService"
	// SecretNotDecrypted says that an encrypted file is damaged or was changed without its key.
	SecretNotDecrypted = "NotDecrypted"
	// SecretTooLarge says that the resolved contents exceed a limit.
	SecretTooLarge = "TooLarge"
	// SecretInvalid says that a reference or an encrypted file of the config cannot be read.
	SecretInvalid = "Invalid"
)

// SecretProblem is a reference or an encrypted file that the server cannot resolve.
//
// +kubebuilder:object:generate=false
type SecretProblem struct {
	// Path of the file on the node.
	Path string `json:"path,omitempty"`
	// Reference is secret:NAME/KEY or configmap:NAME/KEY; empty for an encrypted file.
	Reference string `json:"reference,omitempty"`
	// Node is one of the nodes that need the file; empty if all nodes of the pool do.
	Node string `json:"node,omitempty"`
	// Reason is one of the constants above.
	Reason string `json:"reason"`
	// Message says what is wrong and how to fix it, for people.
	Message string `json:"message"`
}

// NodeSecrets is the server's answer to a node that reads NodeSecretsPath.
//
// +kubebuilder:object:generate=false
type NodeSecrets struct {
	Config string `json:"config"`
	// Revision is that of SecretsRevision.
	Revision string `json:"revision"`
	// Files are the resolved files, in the config's order.
	Files []SecretFile `json:"files"`
}

// SecretFile is a file with resolved contents. Mode and owner are those of the config.
//
// +kubebuilder:object:generate=false
type SecretFile struct {
	// Path is the absolute path on the node.
	Path     string `json:"path"`
	Contents []byte `json:"contents"`
}
