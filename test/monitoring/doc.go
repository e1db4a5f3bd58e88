// Package monitoring tests the alert rules and the dashboard of config/monitoring by Prometheus' own rule engine,
// against the metrics that the programs really export, and the prometheus gate of rollouts by Prometheus' own API,
// PromQL engine and TSDB. It is a module of its own, so that nothing that ships links Prometheus.
//
// In: config/monitoring, docs/monitoring.md and metrics.md, tests in promtool's format below testdata/. Out: test
// results. Never: a part of a program.
package monitoring
