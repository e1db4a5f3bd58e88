// Package console serves pages about a cluster to a browser, and keeps the pages current. Package console changes
// nothing on the cluster.
//
// In: requests, a connection to a cluster with the rights of one user. Out: pages, streams of their changed regions.
// Never: a decision about the cluster; a page for a request without a session; a right that the user does not have.
package console
