// Package assets gives the one executable its other names: links under which
// it is etcd, kube-apiserver or kubectl.
//
// In: a folder and names.
// Out: symbolic links in it.
// Never: replaces a file that is no link.
package assets
