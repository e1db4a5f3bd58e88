// Package http serves Ignition configs to new machines, and the configs of their pools to nodes, over HTTPS: routes,
// authorization, limits, and the log of every response. Package mcs decides what is served, and package mcs/token
// whether a token is valid.
//
// In: served configs, provisioning tokens, a certificate. Out: Ignition configs; for each response a log line, a line
// of the audit log and metrics. Never: a config to an unauthorized client, a token in a log, a config that is composed
// during a request although it could be composed earlier, more time or memory for one client than its share.
package http
