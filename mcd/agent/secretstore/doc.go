// Package secretstore gets the contents of secrets for the configs of one node: from the machine's copy or from a
// server. It stores them for root only, and durably before a config with them is planned.
//
// In: a config, a Source, a host.Host. Out: the config with contents, the file secrets.Path. Never: a drain, contents
// in a log or an error.
package secretstore
