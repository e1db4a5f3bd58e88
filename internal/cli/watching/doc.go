// Package watching keeps the objects that a status shows current, with watches of the API server.
//
// In: a connection with the rights of a user. Out: the state of the cluster after each change, and problems. Never: a
// decision on how to show the state.
package watching
