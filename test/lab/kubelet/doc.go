// Package main is a stand-in for the kubelet of a test's machine, where there is no container runtime: it registers the
// Node and keeps it Ready with mcd/simulate, and answers the health probe of a real one.
//
// In: flags. Out: a Node and its lease; `ok` at /healthz on loopback. Never: containers; a test's assertion.
package main
