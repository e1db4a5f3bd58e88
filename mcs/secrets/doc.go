// Package secrets resolves the references and encrypted files of rendered configs, for the pools whose nodes may have
// the values. It keeps the last resolved contents of each config while an object is invalid or gone.
//
// In: rendered configs, the Secrets and ConfigMaps of v1alpha1.SecretsNamespace, a function that decrypts. Out:
// resolved files, revisions, problems. Never: I/O, a value in a problem.
package secrets
