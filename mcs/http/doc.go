// Package http serves Ignition to new machines over HTTPS: routes, certificates, and the pools of a cluster as they were
// last seen. What is served is decided by package mcs.
//
// In: pools and rendered configs of an API server, a directory with certificates. Out: Ignition configs, one log line per
// request. Never: a write to the cluster, a config put together while a machine waits if it could be ready before.
package http
