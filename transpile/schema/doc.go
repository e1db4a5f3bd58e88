// Package schema checks objects against the structural schemas of the CustomResourceDefinitions in config/crd, so that
// a review finds a value that the API server would refuse before the controller applies the commit.
//
// In: an object without a type. Out: the problems of its spec, each with its field. Never: types of values and unknown
// fields, which strict decoding checks, and rules in CEL, which only an API server evaluates.
package schema
