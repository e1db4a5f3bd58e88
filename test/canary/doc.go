// Package canary searches everything that a test wrote for values that must be nowhere: plain, encoded, compressed,
// nested, and as plain digests.
//
// In: values, bytes, directories, processes of this test. Out: where a value is, and how it is hidden. Never: a place
// that it could not read and does not report.
package canary
