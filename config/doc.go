// Package config holds the manifests that install Bunsen, as kustomize directories.
//
// In: the files of this directory. Out: the same files, for programs that install them. Never: an object that only a program
// adds; `kubectl apply -k config/default` installs the same.
package config

import "embed"

// Files are the kustomize directories.
//
//go:embed components controller crd daemon/*.yaml default namespace rbac server
var Files embed.FS

// Services are the units that run the daemon as a service, in daemon/systemd.
//
//go:embed daemon/systemd/*.service
var Services embed.FS
