// Package schema writes JSON schemas for the files of a config repository: for each variant and version of Butane from
// Butane's own types and documentation, and for each kind of object from its CRD or its Go type.
//
// In: the name of a schema. Out: the schema, for editors and for validators of JSON. Never: a key that the transpiler
// would refuse, or the absence of one that it accepts.
package schema
