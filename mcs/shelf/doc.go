// Package shelf holds what each pool serves: one rendered config, and its bodies, each made once and never changed.
//
// In: rendered configs, what the server adds to each. Out: complete bodies, plain and zipped, shared by all who ask, with
// room for a token where machines join. Never: I/O of its own, a body put together twice.
package shelf
