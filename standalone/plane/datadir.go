package plane

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir is the absolute path of a data directory that exists.
type Dir string

// OpenDir creates the directory if it is missing, readable by its owner only, and returns its absolute path. OpenDir
// does not lock it.
func OpenDir(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("finding the data directory %q: %w", path, err)
	}
	d := Dir(abs)
	for _, sub := range []string{abs, d.PKI(), d.Identities(), d.Logs(), d.Run(), d.Ignition(), d.Hosts()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return "", fmt.Errorf("creating the data directory: %w", err)
		}
	}
	return d, nil
}

// PKI returns the folder with keys and certificates.
func (d Dir) PKI() string { return d.join("pki") }

// Identities returns the folder with one kubeconfig file per component.
func (d Dir) Identities() string { return d.join("identities") }

// Identity returns the path of one component's kubeconfig file.
func (d Dir) Identity(name string) string {
	return filepath.Join(d.Identities(), name+".kubeconfig")
}

// Kubeconfig returns the path of the administrator's kubeconfig file, which users use.
func (d Dir) Kubeconfig() string { return d.join("kubeconfig") }

// Logs returns the folder with one log file per child process.
func (d Dir) Logs() string { return d.join("logs") }

// Run returns the folder with one process record per running child.
func (d Dir) Run() string { return d.join("run") }

// Etcd returns the folder with the database of etcd.
func (d Dir) Etcd() string { return d.join("etcd") }

// Ignition returns the folder with the certificate of machine-config-server and the CA of that certificate, ca.crt.
func (d Dir) Ignition() string { return d.join("mcs") }

// Repository returns the path of the bare git repository that a start creates if the user sets no other repository.
func (d Dir) Repository() string { return d.join("config.git") }

// Hosts returns the folder with the root folder of each simulated host.
func (d Dir) Hosts() string { return d.join("hosts") }

// Host returns the root folder of one simulated host.
func (d Dir) Host(name string) string { return filepath.Join(d.Hosts(), name) }

// Store returns the folder with the fetched trees of repositories. A user can delete this folder.
func (d Dir) Store() string { return d.join("store") }

func (d Dir) join(name string) string { return filepath.Join(string(d), name) }
