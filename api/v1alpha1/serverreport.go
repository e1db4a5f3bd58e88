package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each replica of the machine-config-server reports that it runs: it keeps a Lease in the namespace of Bunsen's own
// objects, with this label and its ServerReport in the annotation.
const (
	// ServerLabel on a Lease names its program, such as `machine-config-server`.
	ServerLabel = "bunsen.dev/component"
	// ServerComponent is the value of ServerLabel.
	ServerComponent = "machine-config-server"
	// ServerAnnotation on such a Lease is a ServerReport as JSON.
	ServerAnnotation = "bunsen.dev/server"
	// ServeAnnotation on a MachineConfigPool selects the config of new machines: ServeHealthy or ServeNewest. Without
	// it, the server's flag counts.
	ServeAnnotation = "bunsen.dev/serve"
	// WithheldAnnotation in a new machine's initial annotations is the name of the config whose secrets it did not get.
	// The daemon adds them after the machine has joined.
	WithheldAnnotation = "bunsen.dev/withheld"
	// SecretPathsAnnotation marks paths and units that are secret as a whole. A repository sets it on a
	// MachineConfigPool, on MachineConfiguration cluster or on a document that has metadata, and a user on a
	// MachineConfig that is made through the API. The controller writes all that apply to a pool on its rendered
	// config. The value is a list of patterns; see secretmask.ParsePaths.
	SecretPathsAnnotation = "review.bunsen.dev/secret-paths"
	// PoolSecretPathsAnnotation on a MachineConfigPool has all patterns that count for the pool now, whichever object
	// has them. The controller writes it, so that servers see a mark that is newer than the config that they serve.
	PoolSecretPathsAnnotation = "bunsen.dev/secret-paths"
	// UnreviewedPathsAnnotation on a MachineConfigPool allows encrypted contents, and contents of Secrets and
	// ConfigMaps, at paths where they are code or decide who may do what. The value is a list of patterns, as that of
	// SecretPathsAnnotation.
	UnreviewedPathsAnnotation = "review.bunsen.dev/unreviewed-paths"
)

// Values of ServeAnnotation, and of the server's flag.
const (
	// ServeHealthy is the last config with which every node of the pool was healthy.
	ServeHealthy = "healthy"
	// ServeNewest is the pool's target config, unless its rollout was halted.
	ServeNewest = "newest"
)

// Access is who can read a config.
type Access string

// Values of Access.
const (
	// AccessTokens means clients with a token or a client certificate.
	AccessTokens Access = "Tokens"
	// AccessOpen means every client that reaches the port.
	AccessOpen Access = "Open"
)

// ServerReport is the heartbeat of one replica of the server.
type ServerReport struct {
	Version string `json:"version"`
	// Listen is the address and port that it serves on.
	Listen  string      `json:"listen"`
	Started metav1.Time `json:"started"`
	Access  Access      `json:"access"`
	// SecretsToAll is true if the server sends secrets to every client with access, not only for tokens of a node.
	SecretsToAll bool `json:"secretsToAll,omitempty"`
	// CertificateUntil is when the server's certificate expires.
	CertificateUntil *metav1.Time `json:"certificateUntil,omitempty"`
	// Authorities are the SHA-256, in hexadecimal, of each CA certificate (DER) with which machines can trust the
	// server; empty if unknown. A pointer config with another CA does not work with this server.
	Authorities []string `json:"authorities,omitempty"`
	// Daemons are the architectures for which new machines can get the daemon from this server, in the words of Go.
	Daemons []string `json:"daemons,omitempty"`
	// Pools are the pools that the server knows, by name.
	Pools map[string]ServedPool `json:"pools,omitempty"`
	// Served counts the configs that the server sent since Started, Refused the requests that it refused.
	Served  int64 `json:"served,omitempty"`
	Refused int64 `json:"refused,omitempty"`
}

// ServedPool is what a replica serves for one pool.
type ServedPool struct {
	// Config is the rendered config's name; empty if there is none to send.
	Config string `json:"config,omitempty"`
	// Problem is why there is none, or why the server does not send a later one; empty without a problem.
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

// String returns the value of ServerAnnotation.
func (r ServerReport) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // it consists of texts, numbers and times, which always marshal
	}
	return string(text)
}
