package plane

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir is the absolute path of a data directory that exists.
type Dir string

// OpenDir creates the directory if it is missing, readable by its owner only, and
// returns its absolute path. It does not lock it.
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

// PKI contains keys and certificates.
func (d Dir) PKI() string { return d.join("pki") }

// Identities contains one kubeconfig file per component.
func (d Dir) Identities() string { return d.join("identities") }

// Identity is the kubeconfig file of one component.
func (d Dir) Identity(name string) string {
	return filepath.Join(d.Identities(), name+".kubeconfig")
}

// Kubeconfig is the administrator's kubeconfig file, for users.
func (d Dir) Kubeconfig() string { return d.join("kubeconfig") }

// Logs contains one log file per child process.
func (d Dir) Logs() string { return d.join("logs") }

// Run contains one process record per running child.
func (d Dir) Run() string { return d.join("run") }

// Etcd contains the database.
func (d Dir) Etcd() string { return d.join("etcd") }

// Ignition contains the certificate of machine-config-server and its CA, ca.crt.
func (d Dir) Ignition() string { return d.join("mcs") }

// Repository is the bare git repository that is created if no other is set.
func (d Dir) Repository() string { return d.join("config.git") }

// Hosts contains the root folder of each simulated host.
func (d Dir) Hosts() string { return d.join("hosts") }

// Host is the root folder of one simulated host.
func (d Dir) Host(name string) string { return filepath.Join(d.Hosts(), name) }

// Store contains the fetched trees of repositories. A user can delete it.
func (d Dir) Store() string { return d.join("store") }

func (d Dir) join(name string) string { return filepath.Join(string(d), name) }
