// Package console serves pages about a cluster to browsers and keeps them current: the server, its routes, who may send
// a request, the streams of what changed, and the actions of users. Package console/view draws the pages.
//
// A feed holds the newest state that a watch publishes, and each page reads it at its own speed; a slow one misses
// states in between. Users who may read the same share a watch. A session is what a one-time token or a sign-in gives a
// browser as a cookie.
//
// An action is a form that a user confirms. It becomes the order of the same verb of bunsen, made by package
// internal/cli/kube, and the API server accepts or refuses it.
//
// In: requests, a connection to a cluster with the rights of one user. Out: pages, streams of their changed regions,
// patches of the orders, events about them. Never: a page or an action for a request without a session, or from another
// site; a change by a request that is not a form of the same session; a right that the user does not have; a token or a
// cookie in a text.
package console
