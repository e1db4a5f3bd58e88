package install

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// fieldOwner is the field manager of the installed objects.
const fieldOwner = "bunsen-install"

type cluster struct {
	client    client.Client
	discovery discovery.ServerVersionInterface
}

// connect creates a client with types for the kinds of Kubernetes and of Bunsen; other objects are unstructured.
func connect(t *kube.Target) (cluster, error) {
	rc, err := t.Config()
	if err != nil {
		return cluster{}, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return cluster{}, fmt.Errorf("registering kinds: %w", err)
		}
	}
	c, err := client.New(rc, client.Options{Scheme: scheme})
	if err != nil {
		return cluster{}, cli.Unreachable(fmt.Errorf("connecting to %s: %w", rc.Host, err))
	}
	d, err := discovery.NewDiscoveryClientForConfig(rc)
	if err != nil {
		return cluster{}, cli.Unreachable(fmt.Errorf("connecting to %s: %w", rc.Host, err))
	}
	return cluster{c, d}, nil
}

func (c cluster) readiness(ctx context.Context) (Readiness, error) {
	var r Readiness
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return r, kube.RequestError("reading the version of the cluster", err)
	}
	r.Major, r.Minor = version.Major, version.Minor
	may := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
	}}
	if err := c.client.Create(ctx, &may); err != nil {
		return r, kube.RequestError("asking for your rights", err)
	}
	if r.Admin = may.Status.Allowed; !r.Admin {
		return r, nil // The permissions for the reads below may be missing.
	}
	r.MachineConfigOperator, err = v1alpha1.OperatorLeads(func(namespace, name string) error {
		return c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &appsv1.Deployment{})
	})
	if err != nil {
		return r, kube.RequestError("looking for the Machine Config Operator", err)
	}
	if r.ConsoleCertificate, err = c.hasConsoleCertificate(ctx); err != nil {
		return r, err
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return r, err
	}
	r.Nodes = len(nodes)
	for _, n := range nodes {
		if _, ok := n.Labels["node-role.kubernetes.io/control-plane"]; ok {
			r.ControlPlane++
		}
	}
	return r, nil
}

// hasConsoleCertificate does not read the content of the Secret.
func (c cluster) hasConsoleCertificate(ctx context.Context) (bool, error) {
	secret := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: ConsoleCertificate}, &secret)
	if client.IgnoreNotFound(err) != nil {
		return false, kube.RequestError("looking for the certificate of the console", err)
	}
	return err == nil, nil
}

func (c cluster) nodes(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := c.client.List(ctx, &list); err != nil {
		return nil, kube.RequestError("reading Nodes", err)
	}
	return list.Items, nil
}

// status is empty if the cluster has none, for example because an earlier version of Bunsen runs.
func (c cluster) status(ctx context.Context) (v1alpha1.ClusterStatus, error) {
	var object v1alpha1.BunsenStatus
	err := c.client.Get(ctx, client.ObjectKey{Name: v1alpha1.BunsenStatusName}, &object)
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return object.Status, kube.RequestError("reading BunsenStatus "+v1alpha1.BunsenStatusName, err)
	}
	return object.Status, nil
}

// apply writes a whole object, and removes fields that an earlier version applied.
func (c cluster) apply(ctx context.Context, o *unstructured.Unstructured, dryRun bool) error {
	options := []client.ApplyOption{client.FieldOwner(fieldOwner), client.ForceOwnership}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), options...); err != nil {
		return kube.RequestError("applying "+nameOf(o), err)
	}
	return nil
}

// remove reports whether the object existed.
func (c cluster) remove(ctx context.Context, o *unstructured.Unstructured, dryRun bool) (bool, error) {
	options := []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	err := c.client.Delete(ctx, o.DeepCopy(), options...)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	}
	return false, kube.RequestError("deleting "+nameOf(o), err)
}

// settings returns the ConfigMaps with the server's settings. The name of each has a digest of its content.
func (c cluster) settings(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	labels := client.MatchingLabels{"app.kubernetes.io/part-of": "bunsen", "app.kubernetes.io/component": "settings"}
	if err := c.client.List(ctx, &list, client.InNamespace(Namespace), labels); err != nil {
		return nil, kube.RequestError("reading the settings in namespace "+Namespace, err)
	}
	var all []*unstructured.Unstructured
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

func (c cluster) isOwn(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	found := o.DeepCopy()
	err := c.client.Get(ctx, client.ObjectKeyFromObject(o), found)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, kube.RequestError("reading "+nameOf(o), err)
	}
	return slices.ContainsFunc(found.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == fieldOwner
	}), nil
}

func (c cluster) isEstablished(ctx context.Context, name string) (bool, error) {
	var kind unstructured.Unstructured
	kind.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition",
	})
	if err := c.client.Get(ctx, client.ObjectKey{Name: name}, &kind); err != nil {
		return false, kube.RequestError("reading the kind "+name, err)
	}
	conditions, _, err := unstructured.NestedSlice(kind.Object, "status", "conditions")
	if err != nil {
		return false, fmt.Errorf("reading the conditions of the kind %s: %w", name, err)
	}
	for _, raw := range conditions {
		if condition, ok := raw.(map[string]any); ok && condition["type"] == "Established" &&
			condition["status"] == "True" {
			return true, nil
		}
	}
	return false, nil
}

func (c cluster) observe(ctx context.Context) (Observed, error) {
	var deployments appsv1.DeploymentList
	var daemons appsv1.DaemonSetList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&deployments, &daemons, &pods} {
		if err := c.client.List(ctx, list, client.InNamespace(Namespace)); err != nil {
			return Observed{}, kube.RequestError("reading the parts in namespace "+Namespace, err)
		}
	}
	return Observed{Deployments: deployments.Items, DaemonSets: daemons.Items, Pods: pods.Items}, nil
}

func (c cluster) reports(ctx context.Context) (read fleet.Cluster, err error) {
	return read, (&kube.Heartbeats{Client: c.client}).Fill(ctx, &read)
}

// maxSilent is how many silent daemons the check names.
const maxSilent = 3

func nameOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
