package v1alpha1

import "time"

// A ConfigMap of ServerNamespace with TrustLabel has certificates that nodes trust. A Secret of SecretsNamespace with
// the label has the global pull secret. See docs/trust.md.
const (
	// TrustLabel of an object has the kind of its contents: one of the following constants.
	TrustLabel = "bunsen.dev/trust"
	// TrustPoolsAnnotation lists the pools whose nodes get the certificates, separated by commas. Without it, and for
	// `*`, all pools get them.
	TrustPoolsAnnotation = "bunsen.dev/pools"
	// TrustUserCA is the kind for certificates that each program of the node trusts.
	TrustUserCA = "user-ca"
	// TrustKubeletCA is the kind for the certificates by which a kubelet knows its clients.
	TrustKubeletCA = "kubelet-ca"
	// TrustRegistryCA is the kind for the certificates of registries, with a key for each registry.
	TrustRegistryCA = "registry-ca"
	// TrustCloudCA is the kind for the certificates of the cloud's API.
	TrustCloudCA = "cloud-ca"
	// TrustPullSecret is the kind of a Secret with the credentials with which kubelets pull images.
	TrustPullSecret = "pull-secret"
	// TrustBundleKey is the key of TrustUserCA, TrustKubeletCA and TrustCloudCA.
	TrustBundleKey = "ca-bundle.crt"
	// PullSecretKey is the key of TrustPullSecret, that of Secrets of the type kubernetes.io/dockerconfigjson.
	PullSecretKey = ".dockerconfigjson"
	// NodeTrustPath is where a node reads the NodeTrust of its pools from the server, as JSON. It identifies itself as
	// for NodeConfigPath.
	NodeTrustPath = "/node/trust"
)

// NodeTrust is the server's answer to a node that reads NodeTrustPath.
//
// +kubebuilder:object:generate=false
type NodeTrust struct {
	// Revision is a SHA-256 digest in hexadecimal digits. It changes with Files and Keep. No secret content is part of
	// it, so it may be published.
	Revision string `json:"revision"`
	// Files are the files that the node's pools get, in the order of their paths.
	Files []TrustFile `json:"files"`
	// Keep names the objects, as in TrustFile.From, that are invalid and whose last valid content the server does not
	// know. A name that ends in /* stands for all objects of a namespace. A node keeps the files that it has from these
	// objects.
	Keep []string `json:"keep,omitempty"`
}

// TrustFile is a file with certificates, or the pull secret.
//
// +kubebuilder:object:generate=false
type TrustFile struct {
	// Path is the absolute path on the node.
	Path string `json:"path"`
	Mode int    `json:"mode"`
	// Contents are PEM certificates, or the JSON of a pull secret.
	Contents string `json:"contents"`
	// From names the object, NAMESPACE/NAME for a ConfigMap and "Secret NAMESPACE/NAME" for a Secret.
	From string `json:"from"`
	// Expires is when the first of the certificates expires that have not expired yet; zero without certificates.
	Expires time.Time `json:"expires,omitzero"`
	// Secret is true for contents that only root of the node may read.
	Secret bool `json:"secret,omitempty"`
	// Version changes with the contents of a Secret and does not depend on them; empty for certificates.
	Version string `json:"version,omitempty"`
}

// TrustReportAnnotation on a Node is a TrustReport as JSON; empty if the node has no certificates or pull secret beside
// its config. Writer: the daemon.
const TrustReportAnnotation = "bunsen.dev/trust-report"

// MaxTrustReport is the largest number of entries in each list of a TrustReport.
const MaxTrustReport = 20

// TrustExpiresSoon is how long before the end of a certificate a node reports it.
const TrustExpiresSoon = 30 * 24 * time.Hour

// TrustReport is what a node has of what its pools trust. It has no contents.
//
// +kubebuilder:object:generate=false
type TrustReport struct {
	// Revision is NodeTrust.Revision of the files that the node has.
	Revision string `json:"revision,omitempty"`
	// Files is the number of files that the daemon wrote.
	Files int `json:"files"`
	// Conflicts are files that the daemon did not write, because the config in force names their path.
	Conflicts []TrustProblem `json:"conflicts,omitempty"`
	// Blocked are files that the daemon did not write for another reason.
	Blocked []TrustProblem `json:"blocked,omitempty"`
	// Expiring are files with a certificate that has expired or expires within TrustExpiresSoon.
	Expiring []TrustExpiry `json:"expiring,omitempty"`
	// Failed is why the daemon could not bring its files to Revision of the server. The node keeps the earlier files.
	Failed string `json:"failed,omitempty"`
	// More is the number of entries that the lists omit.
	More int `json:"more,omitempty"`
}

// TrustProblem is a file that a node does not have.
//
// +kubebuilder:object:generate=false
type TrustProblem struct {
	// Path on the node. From is the object, as in TrustFile.
	Path string `json:"path"`
	From string `json:"from"`
	// Why is the reason; empty for a conflict.
	Why string `json:"why,omitempty"`
}

// TrustExpiry is a file with a certificate near its end.
//
// +kubebuilder:object:generate=false
type TrustExpiry struct {
	// Path on the node. From is the object, as in TrustFile.
	Path    string    `json:"path"`
	From    string    `json:"from"`
	Expires time.Time `json:"expires"`
}
