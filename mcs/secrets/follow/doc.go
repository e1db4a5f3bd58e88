// Package follow reads the Secrets and ConfigMaps that configs refer to, publishes the revisions of the resolved
// contents, and answers nodes and new machines.
//
// In: an API server, the rendered configs that pools refer to. Out: the ConfigMap v1alpha1.SecretsConfigMap, resolved
// files for nodes. Never: a value on disk, in a log or in the ConfigMap.
package follow
