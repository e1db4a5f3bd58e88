package mcs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// JoiningMachine is a machine for which the server creates a bootstrap token. The token's description contains all
// fields.
type JoiningMachine struct {
	// Pool and Node are the pool and the node that the machine is for. Node is empty if the machine may be any node of
	// the pool.
	Pool, Node string
	// Token is the id of the provisioning token that the machine sent, or empty.
	Token string
	// Address is the address of the machine.
	Address string
	// Certificate is the subject of the client certificate that admitted the machine, or empty.
	Certificate string
	// Attested is true if a token or a certificate admitted the machine to the pool, and false if open access admitted
	// it.
	Attested bool
}

// placeholder stands for a bootstrap token. The placeholder has BootstrapTokenLength characters that no format of a
// config escapes. Only the first character of placeholder is a b, so that two placeholders cannot overlap.
func placeholder(n int) string { return fmt.Sprintf("bunsen.%016d", n) }

// errPlaceholder is the error if a body does not contain exactly one placeholder. splitAtToken avoids this error.
var errPlaceholder = errors.New("cannot locate the bootstrap-token placeholder in the config")

// splitAtToken calls compose with a placeholder, and splits the result at the placeholder. If the config contains the
// same text elsewhere, splitAtToken uses another placeholder, which the config does not contain.
func splitAtToken(compose func(hole string) ([]byte, error)) (Body, error) {
	mark := placeholder(0)
	whole, err := compose(mark)
	if err != nil {
		return Body{}, err
	}
	if bytes.Count(whole, []byte(mark)) != 1 {
		for n := 1; bytes.Contains(whole, []byte(mark)); n++ {
			mark = placeholder(n)
		}
		if whole, err = compose(mark); err != nil {
			return Body{}, err
		}
	}
	head, tail, found := bytes.Cut(whole, []byte(mark))
	if !found || bytes.Contains(tail, []byte(mark)) {
		return Body{}, errPlaceholder
	}
	return Body{Head: bytes.Clone(head), Tail: bytes.Clone(tail)}, nil
}

// The parts of a kubeconfig that a kubelet reads.
type (
	kubeconfig struct {
		APIVersion     string         `json:"apiVersion"`
		Kind           string         `json:"kind"`
		Clusters       []namedCluster `json:"clusters"`
		Users          []namedUser    `json:"users"`
		Contexts       []namedContext `json:"contexts"`
		CurrentContext string         `json:"current-context"`
	}
	namedCluster struct {
		Name    string      `json:"name"`
		Cluster clusterPart `json:"cluster"`
	}
	clusterPart struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data,omitempty"` // CA becomes base64, like every []byte in JSON.
	}
	namedUser struct {
		Name string   `json:"name"`
		User userPart `json:"user"`
	}
	userPart struct {
		Token string `json:"token"`
	}
	namedContext struct {
		Name    string      `json:"name"`
		Context contextPart `json:"context"`
	}
	contextPart struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	}
)

// bootstrapKubeconfig returns the kubeconfig with which a kubelet requests its certificate. The kubeconfig is JSON,
// because YAML would parse a token of digits and a dot as a number.
func bootstrapKubeconfig(j Join, token string) ([]byte, error) {
	const cluster, user = "local", "kubelet"
	out, err := json.MarshalIndent(kubeconfig{
		APIVersion:     "v1",
		Kind:           "Config",
		Clusters:       []namedCluster{{cluster, clusterPart(j)}},
		Users:          []namedUser{{user, userPart{Token: token}}},
		Contexts:       []namedContext{{user, contextPart{Cluster: cluster, User: user}}},
		CurrentContext: user,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap kubeconfig: %w", err)
	}
	return append(out, '\n'), nil
}
