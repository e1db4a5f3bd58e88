// Package ignition is the version of Ignition in which Bunsen keeps configs: 3.5.0. It is the only package that imports
// this version, so the next one is an edit here, in the table of Butane's dialects (transpile/butane) and in what the
// server writes for older clients (mcs).
//
// In: Ignition's own types. Out: the same under names without a version. Never: code of its own.
package ignition
