// Command serve compares the server of configs with a static file server of net/http, with the same bytes and the same
// certificate: requests a second, latency, CPU for each request, memory. Each server runs in its own process on one
// processor, and the client in a third process on another one. Then it simulates thousands of machines that boot within
// a second. Each behaves like Ignition, has its own address, and must receive the whole config.
//
// In: flags. Out: tables on standard output. Never: a network beyond loopback.
package main
