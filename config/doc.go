// Package config holds the manifests that install Bunsen, as kustomize directories.
//
// In: the files of this directory. Out: the same files, for programs that install them. Never: an object that only a
// program adds, because `kubectl apply -k config/default` must install the same objects.
package config

import "embed"

// Files are the kustomize directories.
//
//go:embed components controller crd daemon/*.yaml default namespace rbac server
var Files embed.FS

// Services has the directory daemon/systemd with the systemd units that run the daemon as a service.
//
//go:embed daemon/systemd/*.service
var Services embed.FS
