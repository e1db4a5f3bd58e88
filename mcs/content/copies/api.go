package copies

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// noRateLimit disables the client's own rate limit: a file has hundreds of chunks, and maxReads limits the reads.
const noRateLimit = -1

// api is the API server, with the rights of machine-config-server.
type api struct{ client rest.Interface }

func newAPI(config *rest.Config) (*api, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("preparing the API client for the content store: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = noRateLimit
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client for the content store: %w", err)
	}
	return &api{client}, nil
}

// get reads one object.
func (a *api) get(ctx context.Context, resource, name string, into runtime.Object) error {
	err := a.client.Get().Resource(resource).Name(name).Do(ctx).Into(into)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s %s: it does not exist, and the controller writes it with the next change of the config", resource, name)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", resource, name, err)
	}
	return nil
}
