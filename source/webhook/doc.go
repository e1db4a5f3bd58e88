// Package webhook checks and reads the requests with which git hosts announce a push.
//
// In: headers, a body, the secret of the webhook. Out: the refs that changed. Never: I/O, and no byte of a body is
// parsed before its signature is valid.
package webhook
