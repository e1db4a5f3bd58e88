package cluster

import (
	"fmt"
	"net/http"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// clients has one client for each API group. All of them use one connection to one API server.
type clients struct {
	configs rest.Interface // configs reads MachineConfigPools and MachineConfigs.
	tokens  rest.Interface // tokens reads and writes ProvisioningTokens.
	core    rest.Interface // core reads and writes Secrets and ConfigMaps.
	leases  rest.Interface
}

// noRateLimit disables the client's own rate limit. The server already limits the requests of machines, and the API
// server limits its clients (with the status 429, after which the client retries). When thousands of machines boot, a
// third limit would only queue requests until they time out.
const noRateLimit = -1

func newClients(config *rest.Config) (clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		mcfgv1.Install, v1alpha1.AddToScheme, corev1.AddToScheme,
		coordinationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return clients{}, fmt.Errorf("preparing the API client: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = noRateLimit
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return clients{}, fmt.Errorf("preparing the API client: %w", err)
	}
	var c clients
	for _, group := range []struct {
		client  *rest.Interface
		version schema.GroupVersion
		path    string
	}{
		{&c.configs, mcfgv1.GroupVersion, "/apis"},
		{&c.tokens, v1alpha1.GroupVersion, "/apis"},
		{&c.core, corev1.SchemeGroupVersion, "/api"},
		{&c.leases, coordinationv1.SchemeGroupVersion, "/apis"},
	} {
		if *group.client, err = clientFor(*config, group.version, group.path, connection); err != nil {
			return clients{}, err
		}
	}
	return c, nil
}

func clientFor(config rest.Config, version schema.GroupVersion, path string,
	connection *http.Client,
) (rest.Interface, error) {
	config.GroupVersion, config.APIPath = &version, path
	client, err := rest.RESTClientForConfigAndClient(&config, connection)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client for %s: %w", version, err)
	}
	return client, nil
}
