// Package served stores the rendered config of each pool and its response bodies. The package creates each body once
// and never changes it.
//
// In: rendered configs, the server's additions to each. Out: complete bodies, plain or gzip, which all requests share.
// Bodies have a placeholder for a bootstrap token if machines join through the server. Never: I/O, a second creation of
// the same body.
package served
