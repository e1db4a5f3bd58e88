// Package http serves Ignition configs to new machines, and the configs of their pools to nodes, over HTTPS: routes,
// authorization, limits, and the log of every response. Package mcs decides what is served, and package join whether a
// token is valid.
//
// No client takes more than its share: the limits of addresses, connections and streams hold in bounded memory, and a
// client gets more time only while it reads. Client certificates identify nodes; a file names the CAs that count.
//
// In: served configs, provisioning tokens, certificates, allowed networks. Out: Ignition configs and files, whole or in
// parts; for each response a log line, a line of the audit log and metrics. Never: a config to a client without the
// right to it, a token in a log, a config that is composed during a request although it could have been before.
package http
