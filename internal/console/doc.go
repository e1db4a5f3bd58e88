// Package console serves pages about a cluster to browsers and keeps them current: the server, its routes, who may send
// a request, and the streams of what changed. Package console/view draws the pages. The console changes nothing on the
// cluster.
//
// A feed holds the newest state that a watch publishes, and each page reads it at its own speed; a slow one misses
// states in between. A session is what a one-time token or a sign-in gives a browser as a cookie.
//
// In: requests, a connection to a cluster with the rights of one user. Out: pages, streams of their changed regions.
// Never: a page for a request without a session, or from another site; a right that the user does not have; a token or
// a cookie in a text.
package console
