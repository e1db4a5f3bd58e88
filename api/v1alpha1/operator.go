package v1alpha1

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// OperatorLeads reports whether OpenShift's Machine Config Operator leads the pools of a cluster, so that Bunsen must
// not: it would write the same objects. The operator leads while its Deployment exists, even if it is scaled to zero,
// because its controller is a Deployment of its own. The function get reads a Deployment.
func OperatorLeads(get func(namespace, name string) error) (bool, error) {
	err := get("openshift-machine-config-operator", "machine-config-operator")
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
