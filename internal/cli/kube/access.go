package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// followed are the requests of FollowObjects that the API server allows some users and refuses others. Without the
// first ones, there is nothing to follow.
var followed = [15]authorizationv1.ResourceAttributes{
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "gitsources"},
	{Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "gitsources"},
	{Verb: "list", Group: mcfgv1.GroupName, Resource: "machineconfigpools"},
	{Verb: "watch", Group: mcfgv1.GroupName, Resource: "machineconfigpools"},
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "rolloutpolicies"},
	{Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "rolloutpolicies"},
	{Verb: "list", Resource: "nodes"},
	{Verb: "watch", Resource: "nodes"},
	{Verb: "list", Group: mcfgv1.GroupName, Resource: "machineconfigs"},
	{Verb: "watch", Group: mcfgv1.GroupName, Resource: "machineconfigs"},
	{Verb: "list", Group: mcfgv1.GroupName, Resource: "machineconfignodes"},
	{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "notifications"},
	{
		Verb: "get", Resource: "configmaps", Namespace: v1alpha1.ServerNamespace,
		Name: v1alpha1.SecretsConfigMap,
	},
	{Verb: "list", Group: coordinationv1.GroupName, Resource: "leases", Namespace: v1alpha1.ServerNamespace},
	{Verb: "list", Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"},
}

// needed are the first ones of followed.
const needed = 8

// Access is what FollowObjects may read with the rights of a user, in the order of followed.
type Access [len(followed)]bool

// AccessOf asks the API server for the access of a client's user.
func AccessOf(ctx context.Context, c client.Client) (Access, error) {
	var a Access
	var errs [len(followed)]error
	var all sync.WaitGroup
	for i := range followed {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, CheckInterval)
			defer cancel()
			review := &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: followed[i].DeepCopy()},
			}
			errs[i] = c.Create(ctx, review)
			a[i] = review.Status.Allowed
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return Access{}, RequestError("asking what you may read", err)
		}
	}
	return a, nil
}

// Check returns an error if the user may not read what FollowObjects needs.
func (a Access) Check() error {
	for i, of := range followed[:needed] {
		if !a[i] {
			return ReadError(of.Resource, forbidden(of))
		}
	}
	return nil
}

func forbidden(of authorizationv1.ResourceAttributes) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: of.Group, Resource: of.Resource}, of.Name,
		fmt.Errorf("you may not %s them", of.Verb))
}

// ErrRefused is the error of a read that the API server refuses although Access allows it: the user has lost a right.
var ErrRefused = errors.New("the API server refuses what it has allowed before")

// Client returns a client whose user may read no more than Access says, even if they got a further right since. It does
// not say who was refused.
func (a Access) Client(c client.Client) client.Client { return limited{c, a} }

// limited is for the reads of FollowObjects.
type limited struct {
	client.Client
	access Access
}

// List lists objects if the access allows it.
func (l limited) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.read("list", list, func() error { return l.Client.List(ctx, list, opts...) })
}

// Get reads an object if the access allows it.
func (l limited) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return l.read("get", o, func() error { return l.Client.Get(ctx, key, o, opts...) })
}

func (l limited) read(verb string, o runtime.Object, read func() error) error {
	resource := resourceOf(o)
	at := slices.IndexFunc(followed[:], func(of authorizationv1.ResourceAttributes) bool {
		return of.Verb == verb && of.Resource == resource
	})
	if at < 0 {
		return fmt.Errorf("nobody asked whether you may %s %T", verb, o)
	}
	// Configs are listed to find out whether they can be watched.
	if !l.access[at] || resource == "machineconfigs" && !l.access[at+1] {
		return forbidden(followed[at])
	}
	err := read()
	if apierrors.IsForbidden(err) {
		return ErrRefused
	}
	return err
}

// resourceOf returns the resource of an object or a list that FollowObjects reads; "" for others.
func resourceOf(o runtime.Object) string {
	switch o := o.(type) {
	case *v1alpha1.GitSourceList:
		return "gitsources"
	case *v1alpha1.RolloutPolicyList:
		return "rolloutpolicies"
	case *v1alpha1.NotificationList:
		return "notifications"
	case *mcfgv1.MachineConfigPoolList:
		return "machineconfigpools"
	case *coordinationv1.LeaseList:
		return "leases"
	case *certificatesv1.CertificateSigningRequestList:
		return "certificatesigningrequests"
	case *corev1.ConfigMap:
		return "configmaps"
	case *metav1.PartialObjectMetadataList:
		return map[string]string{
			ConfigsMeta.Kind: "machineconfigs", daemonsMeta.Kind: "machineconfignodes",
		}[o.Kind]
	}
	return ""
}
