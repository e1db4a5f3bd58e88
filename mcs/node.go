package mcs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The reasons why a node gets no config.
var (
	// ErrNoSuchConfig says that no rendered config has the requested name.
	ErrNoSuchConfig = errors.New("there is no such config")
	// ErrSecretsUnresolved says that the server does not have the contents of a config's files that refer to secrets.
	ErrSecretsUnresolved = errors.New(
		"the server cannot resolve its secrets now: see the server's log and `bunsen why`")
	// ErrContentUnavailable says that the server cannot send a file of the content store or of a registry now.
	ErrContentUnavailable = errors.New("the server cannot send the file now")
	// ErrAPIUnavailable says that the API server is unreachable and the cache does not have the answer.
	ErrAPIUnavailable = errors.New("the API server does not answer")
)

// NotForNodeError says that a node may not read a config.
type NotForNodeError struct {
	Node string
	// requested by the node
	Config string
	// of the node; empty if it has none, or if Why is set
	Pools []string
	// why the pools are not known, such as two custom pools that both select the node; nil if they are
	Why error
}

// Error names the node, the config and the pools that the node is in.
func (e *NotForNodeError) Error() string {
	text := fmt.Sprintf("node %s may not read %s", e.Node, e.Config)
	pool := v1alpha1.RenderedPool(e.Config)
	switch {
	case e.Why != nil:
		return fmt.Sprintf("%s: %v", text, e.Why)
	case pool == "":
		return text + ", which is not the name of a rendered config"
	case len(e.Pools) == 0:
		return fmt.Sprintf("%s: it is in no pool; label it for pool %s if it belongs there", text, pool)
	}
	return fmt.Sprintf("%s: it is in pool %s, not in %s; label it if it belongs there", text,
		strings.Join(e.Pools, " and "), pool)
}

// Unwrap returns Why.
func (e *NotForNodeError) Unwrap() error { return e.Why }

// CheckNodeConfig returns nil if a rendered config belongs to one of a node's pools, and the node so may read it, or a
// *NotForNodeError. The configs that the node reports have no effect.
func CheckNodeConfig(node string, pools []string, config string) error {
	if pool := v1alpha1.RenderedPool(config); pool != "" && slices.Contains(pools, pool) {
		return nil
	}
	return &NotForNodeError{Node: node, Config: config, Pools: pools}
}

// ConfigsOf returns the rendered configs that a pool refers to: its target, its current and its last healthy one, as
// far as it has them.
func ConfigsOf(pool *mcfgv1.MachineConfigPool) []string {
	names := []string{pool.Spec.Configuration.Name, pool.Status.Configuration.Name}
	if record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation]); err == nil {
		names = append(names, record.Healthy)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// SafeName returns the name of a pool or a config in a request, for the log. It hides an invalid one, because a user
// may have put a token into the path. No secret consists of lower-case letters only.
func SafeName(name string) string {
	const longest = 253
	if len(name) > longest {
		return "(too long)"
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return "(no name)"
		}
	}
	return name
}

// Share is a part of the bootstrap tokens that a server creates in an hour.
type Share string

// The kinds of shares.
const (
	// ShareOfHolder is for one provisioning token or one client certificate, or one address without either.
	ShareOfHolder Share = "holder"
	// ShareOfAddress is the share of one address: of all tokens, and within one holder's share.
	ShareOfAddress Share = "address"
	// ShareOfServer is all bootstrap tokens that the server creates.
	ShareOfServer Share = "server"
)

// ShareError reports that the client gets no bootstrap token now, so that some are left for others.
type ShareError struct {
	// It is used up.
	Share Share
}

// Error says which share is used up.
func (e *ShareError) Error() string {
	whose := map[Share]string{
		ShareOfHolder:  "this provisioning token's or client certificate's share of the bootstrap tokens of an hour",
		ShareOfAddress: "this address's share of the bootstrap tokens of an hour",
		ShareOfServer:  "the number of bootstrap tokens that this server makes in an hour",
	}
	return whose[e.Share] + " is spent"
}

// BootstrapTokenLength is the length of a bootstrap token, `abcdef.0123456789abcdef` (Kubernetes, bootstrap tokens).
const BootstrapTokenLength = 23

// JoiningMachine is what a bootstrap token is created for. Its description has all fields.
type JoiningMachine struct {
	// Pool and Node that the machine is for; it may be any node of the pool if Node is empty.
	Pool, Node string
	// Token is the id of a provisioning token, or empty.
	Token   string
	Address string
	// Certificate is the subject of the client certificate that admitted the machine, or empty.
	Certificate string
	// Attested: a token or a certificate admitted the machine to the pool, and not open access.
	Attested bool
}
