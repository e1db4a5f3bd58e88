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

// clients speak to one API server over one connection, one client for each group of kinds.
type clients struct {
	configs rest.Interface // MachineConfigPool, MachineConfig
	tokens  rest.Interface // ProvisioningToken
	core    rest.Interface // Secret, ConfigMap
	leases  rest.Interface
}

// unlimited switches off the client's own rate limit. What machines may ask is limited where they ask it, and the API server
// shares itself out fairly and says so (429, which is tried again). A limit between the two, at whatever number, would only
// have a storm of machines queue in here until each of their requests is too old.
const unlimited = -1

func newClients(config *rest.Config) (clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{mcfgv1.Install, v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return clients{}, fmt.Errorf("preparing the API client: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = unlimited
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

func clientFor(config rest.Config, version schema.GroupVersion, path string, connection *http.Client) (rest.Interface, error) {
	config.GroupVersion, config.APIPath = &version, path
	client, err := rest.RESTClientForConfigAndClient(&config, connection)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client for %s: %w", version, err)
	}
	return client, nil
}
