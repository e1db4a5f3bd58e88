package controller

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/secret"
)

// secretsOf joins the marks of all objects that concern a pool. The check of a commit rejects patterns that match nothing; of an
// annotation that was set through the API, the other patterns count.
func secretsOf(pool, rules client.Object, selected []*mcfgv1.MachineConfig) string {
	objects := []client.Object{pool, rules}
	for _, mc := range selected {
		objects = append(objects, mc)
	}
	var all secret.Paths
	for _, o := range objects {
		paths, _ := secret.ParsePaths(o.GetAnnotations()[v1alpha1.SecretPathsAnnotation])
		all = append(all, paths...)
	}
	return secret.Join(all)
}
