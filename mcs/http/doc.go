// Package http serves Ignition configs to new machines, and the configs of their pools to nodes, over HTTPS: routes,
// authorization, limits, and the log of every response. Package mcs decides what is served, and package mcs/join
// whether a token is valid.
//
// In: served configs, provisioning tokens, a certificate. Out: Ignition configs; for each response a log line, a line
// of the audit log and metrics. Never: a config to an unauthorized client, a token in a log, a config that is composed
// during a request although it could be composed earlier, more time or memory for one client than its share.
//
// The part address reads the addresses of clients in one form, and decides which addresses are allowed.
//
// In: addresses of connections, allowed networks. Out: addresses, sources, answers. Never: I/O.
//
// The part clientca has the CAs whose client certificates authorize machines and identify nodes.
//
// In: a file, or certificates in PEM. Out: the CA certificates in force. Never: what a certificate authorizes.
//
// The part limit limits how often each client may cause an event, in bounded memory.
//
// In: addresses of clients, times. Out: answers. Never: I/O, a clock.
//
// The part transfer sends a file to a client over HTTP: the whole file, or one part of it. A client gets more time
// while it reads, and only then.
//
// In: a request, an open file. Out: the answer, and how much of the file the client took. Never: a decision about who
// may read the file.
package http
