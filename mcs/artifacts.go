package mcs

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// ArtifactsError says that a config has files in OCI registries, which Ignition cannot read.
type ArtifactsError struct {
	// Config is the name of the config. Files are the paths of the files.
	Config string
	Files  []string
}

// Error names the config and its files.
func (e *ArtifactsError) Error() string {
	return fmt.Sprintf("config %s has files in OCI registries (%s), and new machines cannot read them: serve the files at https:// addresses", e.Config, strings.Join(e.Files, ", "))
}

// checkArtifacts returns an *ArtifactsError if a flat config has files in registries.
func checkArtifacts(c machineconfig.Config, name string) error {
	var paths []string
	for _, f := range machineconfig.RemoteFiles(c) {
		if _, is, _ := machineconfig.ArtifactOf(f.URL); is {
			paths = append(paths, f.Path)
		}
	}
	if len(paths) > 0 {
		return &ArtifactsError{name, paths}
	}
	return nil
}
