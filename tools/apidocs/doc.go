// Command apidocs writes a reference page for each kind of bunsen.dev to docs/api.
//
//	go run -C tools ./apidocs
//
// A page has every field with its type, meaning, default and validation, and an example. The facts come from the
// CustomResourceDefinitions in config/crd, which controller-gen generates from the types in api/v1alpha1.
//
// In: config/crd, tools/apidocs/examples. Out: docs/api. Never: a fact about a field that is not in its CRD.
package main
