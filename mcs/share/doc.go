// Package share divides the bootstrap tokens of an hour among clients, and decides whose request for one runs next.
//
// In: requests of clients, times. Out: when a request may run, refusals. Never: the API server, a clock.
package share
