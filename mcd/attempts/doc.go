// Package attempts counts the attempts to apply a config whose failure may be the effect of a power cut. The package
// also decides when the daemon stops retrying. The packages agent, apply and once use it.
//
// In: the cause of a rollback, the counts of earlier attempts as JSON. Out: Count. Never: any I/O, a file's name.
package attempts
