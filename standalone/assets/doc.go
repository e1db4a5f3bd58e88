// Package assets links the executable under other names, under which it runs etcd,
// kube-apiserver or kubectl.
//
// In: a folder and names. Out: symbolic links in it. Never: the replacement of a file that is not a symbolic link.
package assets
