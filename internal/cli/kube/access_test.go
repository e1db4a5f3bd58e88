package kube

import (
	"context"
	"errors"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestNoReadBeyondTheAccess: users share what one of them reads. A right that this one got since must show the others
// nothing, and a refusal of this one names nobody to them.
func TestNoReadBeyondTheAccess(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	asked, refuses := 0, false
	answer := func() error {
		if asked++; refuses {
			return apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New(`user "ada" may not`))
		}
		return nil
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return answer()
		},
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return answer()
		},
	}).Build()
	reads := map[string]func(c client.Client) error{
		"configmaps": func(c client.Client) error { return c.Get(t.Context(), client.ObjectKey{}, &corev1.ConfigMap{}) },
	}
	for resource, list := range map[string]client.ObjectList{
		"gitsources": &v1alpha1.GitSourceList{}, "rolloutpolicies": &v1alpha1.RolloutPolicyList{},
		"notifications": &v1alpha1.NotificationList{}, "machineconfigpools": &mcfgv1.MachineConfigPoolList{},
		"leases":                     &coordinationv1.LeaseList{},
		"certificatesigningrequests": &certificatesv1.CertificateSigningRequestList{},
		"machineconfigs":             &metav1.PartialObjectMetadataList{TypeMeta: ConfigsMeta},
		"machineconfignodes":         &metav1.PartialObjectMetadataList{TypeMeta: daemonsMeta},
	} {
		reads[resource] = func(c client.Client) error { return c.List(t.Context(), list) }
	}
	for resource, read := range reads {
		for i, of := range followed {
			var access Access
			for k := range access {
				access[k] = k != i
			}
			asked, refuses = 0, false
			err := read(access.Client(api))
			if of.Resource != resource || of.Verb == "watch" && resource != "machineconfigs" {
				if err != nil || asked != 1 {
					t.Errorf("%s without %s %s: %v", resource, of.Verb, of.Resource, err)
				}
				if refuses = true; !errors.Is(read(access.Client(api)), ErrRefused) {
					t.Errorf("%s: a refusal is passed on", resource)
				}
			} else if !apierrors.IsForbidden(err) || asked != 0 || strings.Contains(err.Error(), "ada") {
				t.Errorf("%s without %s is read: %v", resource, of.Verb, err)
			}
		}
	}
	var all Access
	for i := range all {
		all[i] = true
	}
	if err := all.Client(api).List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("what nobody asked about is read")
	}
	if all.Check() != nil {
		t.Error(all.Check())
	}
	for i, of := range followed {
		a := all
		if a[i] = false; i < needed != (a.Check() != nil) {
			t.Errorf("without %s %s: %v", of.Verb, of.Resource, a.Check())
		}
	}
}
