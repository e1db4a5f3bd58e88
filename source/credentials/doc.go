// Package credentials checks the data of Secrets: which keys they may have, and to which hosts their credentials may
// go.
//
// In: a Secret's data and the address of a repository. Out: errors that say what to write. Never: a value of a Secret
// in an error.
package credentials
