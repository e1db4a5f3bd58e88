package trust

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The objects of OpenShift, and the path of the object that names one of them.
const (
	originalUserCA     = "user-ca-bundle"
	originalPullSecret = "pull-secret" //nolint:gosec // a name
	originalImages     = "/apis/config.openshift.io/v1/images/cluster"
)

// source is a place with objects.
type source struct {
	// prefix begins the names of its objects.
	prefix string
	read   func(ctx context.Context) ([]Object, error)
}

// sources returns the places that a server reads. With a namespace of OpenShift's configuration, it reads the objects
// there too.
func sources(client typedcorev1.CoreV1Interface, original string) []source {
	labelled := metav1.ListOptions{LabelSelector: v1alpha1.TrustLabel}
	all := []source{
		{v1alpha1.ServerNamespace + "/", func(ctx context.Context) (objects []Object, err error) {
			list, err := client.ConfigMaps(v1alpha1.ServerNamespace).List(ctx, labelled)
			if err != nil {
				return nil, fmt.Errorf("reading the certificates that nodes trust: %w", err)
			}
			for i := range list.Items {
				objects = append(objects, ofConfigMap(&list.Items[i], list.Items[i].Labels[v1alpha1.TrustLabel]))
			}
			return objects, nil
		}},
		{"Secret " + v1alpha1.SecretsNamespace + "/", func(ctx context.Context) (objects []Object, err error) {
			list, err := client.Secrets(v1alpha1.SecretsNamespace).List(ctx, labelled)
			if err != nil {
				return nil, fmt.Errorf("reading the Secrets for nodes: %w", err)
			}
			for i := range list.Items {
				objects = append(objects, ofSecret(&list.Items[i], list.Items[i].Labels[v1alpha1.TrustLabel]))
			}
			return objects, nil
		}},
	}
	if original == "" {
		return all
	}
	return append(all,
		source{original + "/", func(ctx context.Context) ([]Object, error) {
			return originalConfigMaps(ctx, client, original)
		}},
		source{"Secret " + original + "/", func(ctx context.Context) ([]Object, error) {
			s, err := client.Secrets(original).Get(ctx, originalPullSecret, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("reading Secret %s/%s: %w", original, originalPullSecret, err)
			}
			return []Object{ofSecret(s, v1alpha1.TrustPullSecret)}, nil
		}},
	)
}

// originalConfigMaps reads the user's CA bundle of OpenShift, and the CAs of registries that its image configuration
// names.
func originalConfigMaps(ctx context.Context, client typedcorev1.CoreV1Interface,
	namespace string,
) (objects []Object, err error) {
	kinds := map[string]string{originalUserCA: v1alpha1.TrustUserCA}
	raw, err := client.RESTClient().Get().AbsPath(originalImages).Do(ctx).Raw()
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the image configuration %s: %w", originalImages, err)
	}
	var images struct {
		Spec struct {
			AdditionalTrustedCA struct {
				Name string `json:"name"`
			} `json:"additionalTrustedCA"`
		} `json:"spec"`
	}
	if err == nil {
		if err := json.Unmarshal(raw, &images); err != nil {
			return nil, fmt.Errorf("reading the image configuration %s: %w", originalImages, err)
		}
	}
	if name := images.Spec.AdditionalTrustedCA.Name; name != "" {
		kinds[name] = v1alpha1.TrustRegistryCA
	}
	for name, kind := range kinds {
		m, err := client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
		}
		objects = append(objects, ofConfigMap(m, kind))
	}
	return objects, nil
}

// ofConfigMap reads a ConfigMap. Binary values are values too: they are no certificates, so the object is invalid.
func ofConfigMap(m *corev1.ConfigMap, kind string) Object {
	o := Object{
		Name: m.Namespace + "/" + m.Name, Kind: kind, Pools: m.Annotations[v1alpha1.TrustPoolsAnnotation],
		Created: m.CreationTimestamp.Time, Data: map[string]string{},
	}
	maps.Copy(o.Data, m.Data)
	for key, value := range m.BinaryData {
		o.Data[key] = string(value)
	}
	return o
}

// ofSecret reads a Secret.
func ofSecret(s *corev1.Secret, kind string) Object {
	o := Object{
		Name: "Secret " + s.Namespace + "/" + s.Name, Secret: true, Version: string(s.UID) + "/" + s.ResourceVersion,
		Kind: kind, Pools: s.Annotations[v1alpha1.TrustPoolsAnnotation], Created: s.CreationTimestamp.Time,
		Data: map[string]string{},
	}
	for key, value := range s.Data {
		o.Data[key] = string(value)
	}
	return o
}
