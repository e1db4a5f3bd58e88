// Package session decides which user a request is from: one-time tokens, cookies, and which hosts and pages may send
// requests.
//
// In: requests, now, a source of random bytes. Out: the session of a request, or the reason for its refusal. Never: a
// token or the value of a cookie in a text.
package session
