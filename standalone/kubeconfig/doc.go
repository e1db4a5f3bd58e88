// Package kubeconfig writes the file by which one identity reaches the local API server.
//
// In: the server's address and PEM files.
// Out: a self-contained kubeconfig file, readable by its owner only.
// Never: reads or merges the user's own kubeconfig.
package kubeconfig
