// Package accounts changes the users and groups of a machine: with the machine's own shadow-utils or, if the machine
// does not run, in its files.
//
// In: a machine's files. Out: host.Passwd. Never: a home directory, a password in an argument or an error.
package accounts
