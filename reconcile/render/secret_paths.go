package render

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

// secretPaths joins the secret paths of all objects that concern a pool. secretPaths ignores invalid patterns in
// annotations that users set through the API. In a repository, the check of a commit rejects invalid patterns.
func secretPaths(pool, rules client.Object, selected []*mcfgv1.MachineConfig) string {
	objects := []client.Object{pool, rules}
	for _, mc := range selected {
		objects = append(objects, mc)
	}
	var all secretmask.Paths
	for _, o := range objects {
		paths, _ := secretmask.ParsePaths(o.GetAnnotations()[v1alpha1.SecretPathsAnnotation])
		all = append(all, paths...)
	}
	return secretmask.Join(all)
}
