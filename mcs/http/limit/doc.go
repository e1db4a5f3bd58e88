// Package limit limits how often each client may cause an event, in bounded memory.
//
// In: addresses of clients, times. Out: answers. Never: I/O, a clock.
package limit
