package v1alpha1

import "strings"

// A node reads its configs from the machine-config-server over TLS, with the client certificate of its kubelet (common
// name `system:node:NAME`, organization `system:nodes`). See docs/adr/0024.
const (
	// NodeConfigPath, followed by the name of a rendered config, is where a node reads that config as a MachineConfig
	// in JSON. The answer is 403 if the node is not in the config's pool, and 404 with ReasonHeader if there is no such
	// config.
	NodeConfigPath = "/node/config/"
	// ReasonHeader in an answer other than 200 has the reason, in one word.
	ReasonHeader = "Bunsen-Reason"
	// ReasonNoSuchConfig is the value of ReasonHeader if there is no config of that name.
	ReasonNoSuchConfig = "NoSuchConfig"
	// ReasonSecretsUnresolved is the value of ReasonHeader if the server does not have the secrets of the config now.
	ReasonSecretsUnresolved = "SecretsUnresolved"
)

// The servers of a cluster publish their addresses in this ConfigMap. Nothing in it is secret.
const (
	// ServerNamespace is the namespace of Bunsen's own objects.
	ServerNamespace = "bunsen-system"
	// ServerConfigMap is the ConfigMap in it.
	ServerConfigMap = "machine-config-server-ca"
	// ServerCAKey has the certificates of the CA of the servers, as PEM.
	ServerCAKey = "ca.crt"
	// ServerURLKey has one URL for all servers, such as a load balancer's. An administrator sets it.
	ServerURLKey = "server"
	// ServerURLsKey has one URL a line, `https://HOST:PORT`, for each name of the servers' certificate. The servers set
	// it.
	ServerURLsKey = "urls"
)

// RenderedPool returns the pool in the name of a rendered config, `rendered-POOL-HASH`. It returns an empty string for
// any other name.
func RenderedPool(config string) string {
	name, isRendered := strings.CutPrefix(config, "rendered-")
	end := strings.LastIndexByte(name, '-')
	if !isRendered || end < 0 {
		return ""
	}
	return name[:end]
}
