package kube

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// accessInterval is the interval between two checks of the daemon's read permissions.
const accessInterval = time.Hour

// access has the read permissions of the daemon's identity at the API server.
type access struct {
	readsAll bool
	// checked is when the API server last answered; zero if it never did.
	checked time.Time
}

// update checks the rights again, about once an hour. A node that may read every config also reads from the servers, so
// that its report shows where it would read its config without that right. While the API server does not answer, access
// uses the last answer.
func (a *access) update(ctx context.Context, cluster *Connection) {
	if !a.checked.IsZero() && time.Since(a.checked) < accessInterval {
		return
	}
	readsAll, err := withClient(cluster, func(k *Client) (bool, error) { return k.readsAllConfigs(ctx) })
	if err != nil {
		cluster.configs.servers.logger().Debug("cannot check what the node may read", "err", err)
		return
	}
	a.readsAll, a.checked = readsAll, time.Now()
	if readsAll {
		cluster.configs.probeServers(ctx)
	}
}

// probeServers reads the config in force from the servers, to check that they serve it. probeServers stores no config.
func (c *configs) probeServers(ctx context.Context) {
	node, err := c.cluster.Node(ctx)
	if err != nil || node.Current == "" {
		return
	}
	if _, err := c.fromServers(ctx, v1alpha1.ConfigName(node.Current)); err == nil || apierrors.IsNotFound(err) {
		c.recordSource(v1alpha1.ConfigsFromServer, nil)
	} else {
		c.recordSource(v1alpha1.ConfigsFromAPIServer, err)
	}
}

// readsAllConfigs reports whether the node may read every MachineConfig.
func (k *Client) readsAllConfigs(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{
			APIVersion: authorizationv1.SchemeGroupVersion.String(),
			Kind:       "SelfSubjectAccessReview",
		},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "get", Group: machineConfigs.Group, Resource: machineConfigs.Resource,
		}},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&review)
	if err != nil {
		return false, fmt.Errorf("checking what the node may read: %w", err)
	}
	answer, err := k.objects.Resource(authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")).
		Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("checking what the node may read: %w", markUnreachable(err))
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}
