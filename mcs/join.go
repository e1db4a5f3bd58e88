package mcs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// hole is what stands for a bootstrap token until one is put in: TokenLength characters that no format of a config
// escapes. Its only b is its first character, so that no two of them overlap.
func hole(n int) string { return fmt.Sprintf("bunsen.%016d", n) }

// errHole says that a body has not one hole. It does not happen: see split.
var errHole = errors.New("the room for the bootstrap token cannot be told from the rest of the config")

// split makes a Body of what compose returns for a hole that stands in it as it is. Where something else in the config
// looks like the hole, another is taken that nothing in the config looks like; so the one that is found is the right one.
func split(compose func(hole string) ([]byte, error)) (Body, error) {
	mark := hole(0)
	whole, err := compose(mark)
	if err != nil {
		return Body{}, err
	}
	if bytes.Count(whole, []byte(mark)) != 1 {
		for n := 1; bytes.Contains(whole, []byte(mark)); n++ {
			mark = hole(n)
		}
		if whole, err = compose(mark); err != nil {
			return Body{}, err
		}
	}
	head, tail, found := bytes.Cut(whole, []byte(mark))
	if !found || bytes.Contains(tail, []byte(mark)) {
		return Body{}, errHole
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
		CA     []byte `json:"certificate-authority-data,omitempty"` // base64, as []byte is in JSON
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

// bootstrapKubeconfig is what a kubelet asks for its certificate with. It is JSON, in which a token of digits and a dot is
// a text; YAML would read it as a number.
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
