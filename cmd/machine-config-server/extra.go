package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

// lookEvery is how often the files that are added to configs are looked at again.
const lookEvery = time.Minute

// Where a machine has the CAs (its kubelet, its cloud provider and its container runtime look there).
const (
	kubeletCAPath = "/etc/kubernetes/kubelet-ca.crt"
	cloudCAPath   = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
	registryPath  = "/etc/docker/certs.d/%s/ca.crt"
	caMode        = 0o644
)

// extras keeps what is added to each config at what files say, and the cluster of its kubelets' CA.
type extras struct {
	// files of a machine, and of which files of this host they are made.
	files []addition
	// server is the API server to join; empty is none. Its CA is a file's, or fixed.
	server, caFile string
	ca             []byte
	// set is told of a change.
	set func(mcs.Extra) error
	log *slog.Logger

	mu      sync.Mutex
	kubelet []byte // of the cluster; nil for none
	last    *mcs.Extra
}

// addition is a file of a machine, made of a file of this host.
type addition struct{ path, from string }

// additions are those that the flags name.
func (f extraFlags) additions() ([]addition, error) {
	var all []addition
	if f.kubeletCA != "" {
		all = append(all, addition{kubeletCAPath, f.kubeletCA})
	}
	if f.cloudCA != "" {
		all = append(all, addition{cloudCAPath, f.cloudCA})
	}
	named, err := registries(f.registryCAs)
	for _, r := range named {
		all = append(all, addition{fmt.Sprintf(registryPath, r.name), r.file})
	}
	return all, err
}

// read is what the files say now.
func (e *extras) read() (mcs.Extra, error) {
	var extra mcs.Extra
	var bad []error
	if e.kubelet != nil {
		extra.Files = append(extra.Files, mcs.File{Path: kubeletCAPath, Mode: caMode, Contents: e.kubelet})
	}
	for _, a := range e.files {
		contents, err := certificates(a.from)
		bad = append(bad, err)
		extra.Files = append(extra.Files, mcs.File{Path: a.path, Mode: caMode, Contents: contents})
	}
	if e.server != "" {
		ca := e.ca
		if e.caFile != "" {
			var err error
			ca, err = certificates(e.caFile)
			bad = append(bad, err)
		}
		extra.Join = &mcs.Join{Server: e.server, CA: ca}
	}
	return extra, errors.Join(bad...)
}

// refresh takes up what changed. A file that cannot be used leaves everything as it was.
func (e *extras) refresh() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	extra, err := e.read()
	if err != nil {
		return err
	}
	if e.last != nil && reflect.DeepEqual(*e.last, extra) {
		return nil
	}
	if err := e.set(extra); err != nil { // the others have it
		e.log.Error("adding to each config what has changed", "error", err)
	}
	if e.last != nil {
		e.log.Info("what is added to each config has changed")
	}
	e.last = &extra
	return nil
}

// setKubeletCA takes up the cluster's.
func (e *extras) setKubeletCA(ca []byte) {
	e.mu.Lock()
	e.kubelet = ca
	e.mu.Unlock()
	e.look()
}

// run takes up changes until the context ends.
func (e *extras) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			e.look()
		}
	}
}

func (e *extras) look() {
	if err := e.refresh(); err != nil {
		e.log.Error("keeping what is added to each config as it was", "error", err)
	}
}

// certificates reads a file of certificates as PEM, whole: half of one that is being written is none.
func certificates(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	n := 0
	for rest := text; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if bytes.Contains(rest, []byte("-----BEGIN")) {
				return nil, fmt.Errorf("reading certificates in %s: the text after the first %d is broken", file, n)
			}
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("reading certificates in %s: it holds a %s, which every machine would get", file, block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("reading certificates in %s: the one after the first %d: %w", file, n, err)
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("reading certificates in %s: it has none as PEM", file)
	}
	return text, nil
}
