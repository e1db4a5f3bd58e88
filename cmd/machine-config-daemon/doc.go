// Package main is machine-config-daemon: it brings one node to the config that its Node object asks for.
//
// In: flags. Out: a running agent on a real host (`start`) or on a simulated one (`simulate`); exit codes. Never: logic;
// each command constructs and runs.
package main
