package kube

import (
	"context"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// followed are the requests of FollowObjects that the API server allows some users and refuses others.
var followed = []authorizationv1.ResourceAttributes{
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "gitsources"},
	{Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "gitsources"},
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "rolloutpolicies"},
	{Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "rolloutpolicies"},
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "notifications"},
	{Verb: "list", Group: mcfgv1.GroupName, Resource: "machineconfigpools"},
	{Verb: "watch", Group: mcfgv1.GroupName, Resource: "machineconfigpools"},
	{Verb: "list", Group: mcfgv1.GroupName, Resource: "machineconfigs"},
	{Verb: "watch", Group: mcfgv1.GroupName, Resource: "machineconfigs"},
	{Verb: "list", Group: mcfgv1.GroupName, Resource: "machineconfignodes"},
	{Verb: "list", Resource: "nodes"},
	{Verb: "watch", Resource: "nodes"},
	{
		Verb: "get", Resource: "configmaps", Namespace: v1alpha1.ServerNamespace,
		Name: v1alpha1.SecretsConfigMap,
	},
	{Verb: "list", Group: "coordination.k8s.io", Resource: "leases", Namespace: v1alpha1.ServerNamespace},
	{Verb: "list", Group: "certificates.k8s.io", Resource: "certificatesigningrequests"},
}

// Access is what FollowObjects may read with the rights of a user. Users with the same Access get the same states.
type Access [15]bool

// AccessOf asks the API server for the access of a client's user.
func AccessOf(ctx context.Context, c client.Client) (a Access, err error) {
	ctx, cancel := context.WithTimeout(ctx, CheckInterval)
	defer cancel()
	for i := range followed {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: followed[i].DeepCopy()},
		}
		if err := c.Create(ctx, review); err != nil {
			return Access{}, RequestError(fmt.Sprintf("asking whether you may %s %s", followed[i].Verb,
				followed[i].Resource), err)
		}
		a[i] = review.Status.Allowed
	}
	return a, nil
}
