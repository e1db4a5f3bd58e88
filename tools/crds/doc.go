// Command crds compares the CRDs in config/crd with those of the last release, and reports each change that an API
// server with stored objects, or a client of the last release, does not tolerate.
//
//	crds [-root DIR] [-update]
//
// Such changes are removed fields, versions and enum values, other types, new required fields and stricter limits. The
// directory baseline has the CRDs of the last release without descriptions; -update writes this directory again.
//
// In: config/crd and baseline. Out: each incompatible change with its CRD, version and field, and exit status 1. Never:
// a change of config/crd.
package main
