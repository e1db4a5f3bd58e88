// Package rights checks who may do what with the rights of config/rbac. Each table of testdata lists requests of one
// identity and whether the API server must allow or forbid them.
//
// In: config/, tables of requests. Out: tests that send each request to a real API server as that identity. Never: code
// that ships.
package rights
