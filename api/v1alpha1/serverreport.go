package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How replicas of the machine-config-server tell that they are there: each keeps a Lease, in the namespace of Bunsen's own
// objects, with this label, and its ServerReport in the annotation.
const (
	// ServerLabel on a Lease, `machine-config-server`, says whose it is.
	ServerLabel = "bunsen.dev/component"
	// ServerComponent is the value of ServerLabel.
	ServerComponent = "machine-config-server"
	// ServerAnnotation on such a Lease is a ServerReport as JSON.
	ServerAnnotation = "bunsen.dev/server"
	// ServeAnnotation on a MachineConfigPool says which config new machines of the pool get: ServeHealthy or ServeNewest.
	// Absent: as the server's flag says.
	ServeAnnotation = "bunsen.dev/serve"
	// WithheldAnnotation in a new machine's first annotations names the config whose secrets it did not get: the daemon
	// completes it after the machine has joined. The value is that config's name.
	WithheldAnnotation = "bunsen.dev/withheld"
	// SecretPathsAnnotation marks paths and units that are secret as a whole. A repository sets it on a MachineConfigPool, on
	// MachineConfiguration cluster or on a document that has metadata, and a user on a MachineConfig that is made through the API. The controller writes all that apply
	// to a pool on its rendered config.
	// The value is a list of patterns; see secret.ParsePaths.
	SecretPathsAnnotation = "review.bunsen.dev/secret-paths"
)

// Values of ServeAnnotation, and of the server's flag.
const (
	// ServeHealthy is the last config that every node of the pool was well with.
	ServeHealthy = "healthy"
	// ServeNewest is the config that is being rolled out, unless its rollout was halted.
	ServeNewest = "newest"
)

// Access says who gets a config.
type Access string

// Values of Access.
const (
	// AccessTokens: who has a token or a client certificate.
	AccessTokens Access = "Tokens"
	// AccessOpen: whoever reaches the port.
	AccessOpen Access = "Open"
)

// ServerReport is what one replica of the server does at the moment.
type ServerReport struct {
	// Version of the program.
	Version string `json:"version"`
	// Listen is the address and port that it serves on.
	Listen string `json:"listen"`
	// Started is when the process began.
	Started metav1.Time `json:"started"`
	// Access says who gets a config.
	Access Access `json:"access"`
	// SecretsToAll says that configs are served with their secrets to everybody who may ask, not to tokens of a node only.
	SecretsToAll bool `json:"secretsToAll,omitempty"`
	// CertificateUntil is when the certificate that it shows ends.
	CertificateUntil *metav1.Time `json:"certificateUntil,omitempty"`
	// Authorities are the SHA-256, in hexadecimal, of each certificate (DER) that machines may believe it by; empty where that
	// is not known. A pointer config with another CA is of no use with this server.
	Authorities []string `json:"authorities,omitempty"`
	// Pools it knows, by name.
	Pools map[string]ServedPool `json:"pools,omitempty"`
	// Served counts the configs that were served since Started, Refused the requests that were turned away.
	Served  int64 `json:"served,omitempty"`
	Refused int64 `json:"refused,omitempty"`
}

// ServedPool is what a replica serves for one pool.
type ServedPool struct {
	// Config is the rendered config's name; empty while there is none to serve.
	Config string `json:"config,omitempty"`
	// Problem is why there is none, or why a later one is not served; empty where all is well.
	Problem string `json:"problem,omitempty"`
}

// ParseServerReport reads ServerAnnotation.
func ParseServerReport(text string) (ServerReport, error) {
	var r ServerReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return ServerReport{}, fmt.Errorf("reading the annotation %s: %w", ServerAnnotation, err)
	}
	return r, nil
}

// String is the report as the annotation spells it.
func (r ServerReport) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // it consists of texts, numbers and times, which always marshal
	}
	return string(text)
}
