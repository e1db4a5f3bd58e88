package v1alpha1

import "time"

// A ConfigMap of ServerNamespace with TrustLabel has certificates that nodes trust. See docs/trust.md.
const (
	// TrustLabel of a ConfigMap has the kind of its certificates: TrustUserCA, TrustKubeletCA or TrustRegistryCA.
	TrustLabel = "bunsen.dev/trust"
	// TrustPoolsAnnotation lists the pools whose nodes get the certificates, separated by commas. Without it, and for `*`,
	// all pools get them.
	TrustPoolsAnnotation = "bunsen.dev/pools"
	// TrustUserCA is the kind for certificates that each program of the node trusts.
	TrustUserCA = "user-ca"
	// TrustKubeletCA is the kind for the certificates by which a kubelet knows its clients.
	TrustKubeletCA = "kubelet-ca"
	// TrustRegistryCA is the kind for the certificates of registries, with a key for each registry.
	TrustRegistryCA = "registry-ca"
	// TrustBundleKey is the key of TrustUserCA and TrustKubeletCA.
	TrustBundleKey = "ca-bundle.crt"
	// NodeTrustPath is where a node reads the NodeTrust of its pools from the server, as JSON. It identifies itself as for
	// NodeConfigPath.
	NodeTrustPath = "/node/trust"
)

// NodeTrust is the server's answer to a node that reads NodeTrustPath.
//
// +kubebuilder:object:generate=false
type NodeTrust struct {
	// Revision is a SHA-256 digest of Files and Keep in hexadecimal digits.
	Revision string `json:"revision"`
	// Files are the files that the node's pools get, in the order of their paths.
	Files []TrustFile `json:"files"`
	// Keep names the objects, NAMESPACE/NAME, that are invalid and whose last valid content the server does not know. A
	// node keeps the files that it has from these objects.
	Keep []string `json:"keep,omitempty"`
}

// TrustFile is a file with certificates.
//
// +kubebuilder:object:generate=false
type TrustFile struct {
	// Path is the absolute path on the node.
	Path string `json:"path"`
	// Mode has the permission bits.
	Mode int `json:"mode"`
	// Contents are PEM certificates.
	Contents string `json:"contents"`
	// From names the object, NAMESPACE/NAME.
	From string `json:"from"`
	// Expires is when the first of the certificates expires that have not expired yet.
	Expires time.Time `json:"expires"`
}
