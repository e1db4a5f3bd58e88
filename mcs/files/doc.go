// Package files replaces the API server for a server without a cluster: it reads rendered configs and provisioning
// tokens from files.
//
// A Dir serves rendered configs. Tokens reads provisioning tokens and counts their uses on disk. SetConfigs serves a
// set of configs. Additions reads the files that the server adds to each config; a server in a cluster uses Additions
// too. Dir, Tokens and Additions read files again when their content changes. While files are invalid, the last valid
// contents stay in use.
//
// In: files of MachineConfig and ProvisioningToken objects, a directory for uses, PEM files. Out: served configs;
// tokens and their uses; additions. Never: a use of a token that is granted before the use is on disk; a token's
// secret, which the files do not have; the network.
package files
