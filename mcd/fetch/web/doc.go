// Package web requests remote files for a machine, through the proxies and with the CAs of a config.
//
// In: addresses, the Access of a config. Out: answers, and bodies that fail if the server stalls. Never: a file on disk, a
// redirect from https to http, the query of an address in an error.
package web
