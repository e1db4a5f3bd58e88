package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bunsen-os/bunsen/mcs/cache"
	"github.com/bunsen-os/bunsen/mcs/certs"
	"github.com/bunsen-os/bunsen/mcs/cluster"
)

// inCluster constructs what reads a cluster.
func (p *program) inCluster(ctx context.Context) error {
	config, err := p.from.apiServer()
	if err != nil {
		return fmt.Errorf("finding the API server (give --kubeconfig outside of a cluster, --from-dir or --from-git without one): %w", err)
	}
	if p.extras, err = p.extrasOf(config); err != nil {
		return err
	}
	o := cluster.Options{Shelf: p.shelf, Serve: p.flags.serve, Report: p.report, Log: p.log, Now: time.Now}
	if o.Replica, err = p.replica(); err != nil {
		return err
	}
	if p.from.cache != "" {
		if o.Keeper, err = cache.Open(filepath.Join(p.from.cache, "cluster"), p.log); err != nil {
			return fmt.Errorf("opening --cache-dir: %w", err)
		}
	}
	if p.extra.server != "" && p.extra.kubeletCA == "" {
		o.KubeletCA = p.extras.setKubeletCA
	}
	api, err := cluster.New(config, o)
	if err != nil {
		return err
	}
	p.tokens, p.joiner = api, api
	p.parts = append(p.parts, api.Run)
	p.cert, err = p.certificates(ctx, config)
	return err
}

// apiServer is that of --kubeconfig, or the one of the pod that this runs in.
func (f fromFlags) apiServer() (*rest.Config, error) {
	if f.kubeconfig == "" {
		return rest.InClusterConfig() // clientcmd would do so, too, after warnings
	}
	return clientcmd.BuildConfigFromFlags("", f.kubeconfig)
}

// extrasOf is what is added to each config. New machines believe the API server as this one does, unless told otherwise.
func (p *program) extrasOf(config *rest.Config) (*extras, error) {
	files, err := p.extra.additions()
	if err != nil {
		return nil, err
	}
	e := &extras{files: files, server: p.extra.server, caFile: p.extra.serverCA, set: p.shelf.SetExtra, log: p.log}
	if e.server == "" || e.caFile != "" {
		return e, nil
	}
	if e.ca, e.caFile = config.CAData, config.CAFile; e.ca != nil { // as client-go has it
		e.caFile = ""
	}
	if e.ca == nil && e.caFile == "" {
		return nil, errors.New("--join-server needs --join-ca: this server's own kubeconfig names no CA to believe the API server by")
	}
	return e, nil
}

// replica is who this server is.
func (p *program) replica() (cluster.Replica, error) {
	r := cluster.Replica{Name: p.name, Pod: os.Getenv("POD_NAME"), PodUID: types.UID(os.Getenv("POD_UID"))}
	if r.Name == "" {
		r.Name = r.Pod
	}
	if r.Name != "" {
		return r, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return r, fmt.Errorf("finding this host's name (or give --name): %w", err)
	}
	r.Name = host
	return r, nil
}

// certificates of a server in a cluster are in a Secret, unless only a folder was named.
func (p *program) certificates(ctx context.Context, config *rest.Config) (*certs.Certificates, error) {
	t, secret := p.tls, p.tls.secret
	if secret == "" && t.dir != "" {
		return certs.OpenCertificates(t.dir, t.hostnames, p.log)
	}
	if secret == "" {
		secret = defaultSecret
	}
	namespace, name, _ := strings.Cut(secret, "/")
	return certs.OpenSecret(ctx, config, certs.Secret{Namespace: namespace, Name: name, CA: caName, Hostnames: t.hostnames, Cache: t.dir}, p.log)
}
