// Package fetch decides which remote files of a config a machine lacks, and downloads them: one at a time, in parts
// that survive a crash, within limits of size and disk space. Contents become usable only after their hash was
// verified.
//
// In: configs, a Store, a Web. Out: stored contents, errors that name the address without its query. Never: HTTP, files
// of the machine, the cluster, a decision about when the node drains.
package fetch
