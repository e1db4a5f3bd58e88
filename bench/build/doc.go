// Command build measures `bunsen build` of one pool of a directory: its files are copied, transpiled, rendered and
// printed. Butane and the merge of the machine-config-operator do the same in turn with it. It also measures `bunsen
// validate` of many pools that include the same documents, beside one of them.
//
// In: flags. Out: a table on standard output. Never: a network, a cluster, the user's cache.
package main
