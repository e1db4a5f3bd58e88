// Command vulnerabilities reports the known vulnerabilities of programs: those whose code the linker put into the
// binary.
//
//	vulnerabilities [-root DIR]             builds the project's programs and checks them
//	vulnerabilities BINARY...               checks programs that are built already, with their symbols
//
// In: binaries, and the Go vulnerability database that GOVULNDB names, else https://vuln.go.dev. Out: each finding with
// the version that fixes it, and exit status 1. If GOVULNDB is not set and the default database cannot be reached, the
// command reports this and exits with 0. Never: success with a named database that cannot be read.
package main
