package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/mcs"
)

const additionsInterval = time.Minute

// The CAs of the kubelet, its cloud provider and the container runtime of a machine. RegistryCAPath contains the name
// of the registry.
const (
	KubeletCAPath  = "/etc/kubernetes/kubelet-ca.crt"
	CloudCAPath    = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
	RegistryCAPath = "/etc/docker/certs.d/%s/ca.crt"
)

// Addition is a file that the server adds to the configs of machines, with the content of a file on the server's host.
type Addition struct {
	// on the machine, and on the server's host
	Path, From string
}

// Additions follows the files that the server adds to each config, from its host and from the cluster's kubelet CA. The
// exported fields must not change after the first call of a method. All methods may be called concurrently.
type Additions struct {
	// Files have PEM certificates.
	Files []Addition
	// JoinServer is the URL of the API server that machines join, or empty. Its CA is in JoinCAFile, or else JoinCA.
	JoinServer, JoinCAFile string
	JoinCA                 []byte
	// after each change
	Set func(mcs.Extra) error
	Log *slog.Logger

	mu        sync.Mutex
	kubeletCA []byte // kubeletCA is the kubelet CA of the cluster; nil for none.
	last      *mcs.Extra
}

// read needs mu.
func (a *Additions) read() (mcs.Extra, error) {
	const mode = 0o644
	var extra mcs.Extra
	var bad []error
	if a.kubeletCA != nil {
		extra.Files = append(extra.Files, mcs.File{Path: KubeletCAPath, Mode: mode, Contents: a.kubeletCA})
	}
	for _, f := range a.Files {
		contents, err := readCertificates(f.From)
		bad = append(bad, err)
		extra.Files = append(extra.Files, mcs.File{Path: f.Path, Mode: mode, Contents: contents})
	}
	if a.JoinServer != "" {
		ca := a.JoinCA
		if a.JoinCAFile != "" {
			var err error
			ca, err = readCertificates(a.JoinCAFile)
			bad = append(bad, err)
		}
		extra.Join = &mcs.Join{Server: a.JoinServer, CA: ca}
	}
	return extra, errors.Join(bad...)
}

// Refresh reads the files and calls Set after a change. If a file is invalid, the additions do not change.
func (a *Additions) Refresh() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	extra, err := a.read()
	if err != nil {
		return err
	}
	if a.last != nil && reflect.DeepEqual(*a.last, extra) {
		return nil
	}
	if err := a.Set(extra); err != nil { // An error is not repeated, because the other pools have the change.
		a.Log.Error("adding files to the configs of some pools failed", "error", err)
	}
	if a.last != nil {
		a.Log.Info("what is added to each config has changed")
	}
	a.last = &extra
	return nil
}

// SetKubeletCA adds the cluster's kubelet CA.
func (a *Additions) SetKubeletCA(ca []byte) {
	a.mu.Lock()
	a.kubeletCA = ca
	a.mu.Unlock()
	a.refreshAndLog()
}

// Run calls Refresh regularly until the context ends.
func (a *Additions) Run(ctx context.Context) { every(ctx, additionsInterval, a.refreshAndLog) }

func (a *Additions) refreshAndLog() {
	if err := a.Refresh(); err != nil {
		a.Log.Error("reading the files that are added to each config failed; the previous ones stay in use", "error",
			err)
	}
}

// readCertificates rejects an incomplete file, which is still being written.
func readCertificates(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	if _, err := trustfile.Certificates(text); err != nil {
		return nil, fmt.Errorf("reading certificates in %s: %w", file, err)
	}
	return text, nil
}
