// Package secrets decides which contents of secrets a machine takes and keeps, and puts them into configs.
//
// A rendered config names secrets and has none. A Store reads the contents from the servers, checks that they are those
// of the config and its revision, and keeps a copy on the machine, for root only: of the config in force, of the one
// before it, and of the desired one. So a rollback, a drift scan and an update without the API server have them.
//
// In: configs, the answer of the servers, a host.Host with the machine's copy. Out: configs with contents, the new
// copy, errors that say for what the node waits (WaitError). Never: contents in an error or a log, or their length or
// digest.
package secrets
