// Command serve measures the server of configs beside a static file server of net/http that has the very same bytes and the
// same certificate: requests a second, latency, CPU for each request, memory. Both are processes of their own on one
// processor, and a third one asks them, on another. Then it lets thousands of machines boot within a second: each behaves
// as Ignition does, comes from an address of its own, and has to end with the whole config.
//
// In: flags. Out: tables on standard output. Never: a network beyond loopback.
package main
