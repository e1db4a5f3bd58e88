// Package secrets resolves the references and encrypted files of rendered configs, for the pools whose nodes may have
// the values. The Follower reads the Secrets and ConfigMaps that configs refer to, publishes the revisions of what they
// resolve to, and answers nodes and new machines. What was resolved last stays in force while an object is invalid or
// gone.
//
// In: rendered configs, objects of v1alpha1.SecretsNamespace, a function that decrypts. Out: resolved files, revisions
// in the ConfigMap v1alpha1.SecretsConfigMap, problems. Never: a value on disk, in a log, in the ConfigMap or in a
// problem.
package secrets
