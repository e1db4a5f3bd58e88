// Package http serves Ignition to new machines over HTTPS: routes, who may ask, bounds on what anybody can take, and the
// record of every answer. What is served is decided by package mcs, what a token is good for by package mcs/token.
//
// In: offers of a shelf, what is kept of tokens, a certificate. Out: Ignition configs; per answer one log line, one line of
// the audit log and a count. Never: a config to who may not have it, a token in a log, a config put together while a machine
// waits if it could be ready before, more time or memory for one client than its share.
package http
