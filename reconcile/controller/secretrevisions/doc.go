// Package secretrevisions follows the revisions of secrets that the machine-config-server publishes for rendered
// configs, and finds out which rendered configs refer to secrets.
//
// In: one ConfigMap, rendered configs. Out: poolstate.Published, events for all pools. Never: a Secret, the value of a
// secret.
package secretrevisions
