// Package reboots updates a real host again and again, with a reboot each time, and stops its daemon, its bus or its
// logind at a random moment around the request for the reboot. Each update boots the host once, and nothing is rolled
// back after the host has accepted the reboot.
//
// The flag -reboots sets the number of updates; the seed in the output repeats their moments.
//
// In: KUBEBUILDER_ASSETS, BUNSEN_BIN (or it builds the daemon), root. Out: test results. Never: a controller; the test
// assigns configs and acknowledges drains itself.
package reboots
