// Package fetch brings the remote files of configs, and OS images, onto a machine before it is drained.
//
// A Fetcher finds which contents a config needs and the machine lacks, adopts what is already on the disk, and
// downloads the rest: one file at a time, in parts that survive a crash, within limits of size and disk space. Contents
// become usable only after their hash was verified. A Syncer downloads the content of the config that the node gets
// next, in the background; one lock keeps it and the agent from changing the machine at the same time.
//
// In: configs, a Store and Partials (the machine's disk), a Web (the servers), a host.OperatingSystem. Out: stored
// contents, the report for the Node, errors that name an address without its query. Never: HTTP itself, other files of
// the machine, the cluster, a decision about when the node drains.
package fetch
