package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/mcs/certs"
	"github.com/bunsen-os/bunsen/mcs/cluster"
	"github.com/bunsen-os/bunsen/mcs/content"
	"github.com/bunsen-os/bunsen/mcs/files"
	"github.com/bunsen-os/bunsen/mcs/http"
	"github.com/bunsen-os/bunsen/mcs/secrets"
	"github.com/bunsen-os/bunsen/mcs/trust"
)

// inCluster constructs those parts of the server that read a cluster.
func (p *program) inCluster(ctx context.Context) error {
	config, err := p.from.apiServer()
	if err != nil {
		return fmt.Errorf("finding the API server (set --kubeconfig outside of a cluster, or --from-dir or "+
			"--from-git without one): %w", err)
	}
	if p.additions, err = p.clusterAdditions(config); err != nil {
		return err
	}
	o := cluster.Options{Pools: p.pools, Serve: p.flags.serve, Report: p.report, Log: p.log, Now: time.Now}
	if o.Replica, err = p.replica(); err != nil {
		return err
	}
	if p.from.cache != "" {
		if o.Cache, err = cluster.OpenCache(filepath.Join(p.from.cache, "cluster"), p.log); err != nil {
			return fmt.Errorf("opening --cache-dir: %w", err)
		}
	}
	if p.extra.server != "" && p.extra.kubeletCA == "" {
		o.KubeletCA = p.additions.SetKubeletCA
	}
	p.apis.nodes.CAs = &http.ClientCASet{}
	o.NodeCA = func(ca []byte) {
		if err := p.apis.nodes.CAs.Replace(ca); err != nil {
			p.log.Error("nodes cannot read their configs until this is fixed", "error", err)
		}
	}
	api, err := cluster.New(config, o)
	if err != nil {
		return err
	}
	p.apis.tokens, p.apis.bootstrapTokens, p.apis.nodes.Configs = api, api, api
	trusted, err := trust.NewFollower(config, trust.Options{
		Cache: o.Cache, Pools: api.NodePools, Original: p.from.trusted,
		Log: p.log, Now: time.Now,
	})
	if err != nil {
		return err
	}
	keys, err := p.keyService.decrypters()
	if err != nil {
		return err
	}
	resolved, err := secrets.NewFollower(config, secrets.Options{
		Pools: api.NodePools, NewDecrypt: keys.forKeys,
		Log: p.log, Now: time.Now,
	})
	if err != nil {
		return err
	}
	p.apis.nodes.Trust, p.apis.nodes.Secrets, p.apis.nodes.Content = trusted, resolved, api.NodeContent
	registries, err := p.registries()
	if err != nil {
		return err
	}
	repository, err := p.contentRegistry()
	if err != nil {
		return err
	}
	if _, err := p.contentOf(content.InRegistry(repository, registries)); err != nil {
		return err
	}
	p.parts = append(p.parts, api.Run, trusted.Run, resolved.Run)
	p.cert, err = p.certificates(ctx, config)
	return err
}

// apiServer returns the connection to the API server: from --kubeconfig, or from the server's pod.
func (f fromFlags) apiServer() (*rest.Config, error) {
	if f.kubeconfig == "" {
		return rest.InClusterConfig() // The library clientcmd would do the same, but it prints warnings.
	}
	return clientcmd.BuildConfigFromFlags("", f.kubeconfig)
}

// clusterAdditions returns the additions to each config. New machines trust the API server's CA that this server uses,
// unless --join-ca names another one.
func (p *program) clusterAdditions(config *rest.Config) (*files.Additions, error) {
	added, err := p.extra.additions()
	if err != nil {
		return nil, err
	}
	a := &files.Additions{
		Files: added, JoinServer: p.extra.server, JoinCAFile: p.extra.serverCA, Set: p.pools.SetExtra,
		Log: p.log,
	}
	if a.JoinServer == "" || a.JoinCAFile != "" {
		return a, nil
	}
	// client-go also prefers CAData to CAFile.
	if a.JoinCA, a.JoinCAFile = config.CAData, config.CAFile; a.JoinCA != nil {
		a.JoinCAFile = ""
	}
	if a.JoinCA == nil && a.JoinCAFile == "" {
		return nil, errors.New("--join-server needs --join-ca: the server's own kubeconfig has no CA of the API server")
	}
	return a, nil
}

// replica identifies this server.
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
		return r, fmt.Errorf("finding the name of this host (or set --name): %w", err)
	}
	r.Name = host
	return r, nil
}

// certificates opens the certificates in a Secret. If only --cert-dir is set, certificates opens the certificates in
// that directory.
func (p *program) certificates(ctx context.Context, config *rest.Config) (*certs.Certificates, error) {
	t, secret := p.tls, p.tls.secret
	if secret == "" && t.dir != "" {
		return certs.OpenCertificates(t.dir, t.hostnames, p.log)
	}
	if secret == "" {
		secret = defaultSecret
	}
	namespace, name, _ := strings.Cut(secret, "/")
	return certs.OpenSecret(ctx, config, certs.Secret{
		Namespace: namespace, Name: name, CA: caName, Hostnames: t.hostnames, URLs: nodeURLs(t.hostnames, t.listen),
		Cache: t.dir,
	}, p.log)
}

// nodeURLs returns the URLs at which nodes reach this server: each of --hostnames with the port of --listen. If the
// system chooses the port, nodeURLs returns no URL.
func nodeURLs(hostnames []string, listen string) []string {
	_, port, err := net.SplitHostPort(listen)
	if err != nil || port == "" || port == "0" {
		return nil
	}
	urls := make([]string, 0, len(hostnames))
	for _, name := range hostnames {
		urls = append(urls, "https://"+net.JoinHostPort(name, port))
	}
	return urls
}

// decrypters makes functions that decrypt files of SOPS.
type decrypters struct {
	// service is asked for the keys that are allowed; nil if there is none.
	service *sops.KeyServiceClient
	allowed []string
}

// forKeys returns a function that decrypts files of SOPS with age keys, and with the key service until the context
// ends. The error counts the texts that are no keys; it does not show them.
func (d decrypters) forKeys(ctx context.Context, keys [][]byte) (secrets.Decrypt, error) {
	var identities []age.Identity
	invalid := 0
	for _, text := range keys {
		parsed, err := age.ParseIdentities(bytes.NewReader(text))
		if err != nil { // the error may quote the text
			invalid++
			continue
		}
		identities = append(identities, parsed...)
	}
	with := sops.Keys{Age: identities}
	if d.service != nil {
		with.Service = &sops.Service{
			Ask: d.service.Round(ctx), Allowed: d.allowed,
			AllowedIn: "the flag --key-service-key of machine-config-server",
		}
	}
	decrypt := func(format string, body []byte) ([]byte, error) {
		plain, err := with.Decrypt(format, body)
		if missing := new(sops.MissingKeyError); errors.As(err, &missing) {
			if missing.Asked {
				return nil, fmt.Errorf("%w: %w", secrets.ErrKeyService, err)
			}
			return nil, fmt.Errorf("%w: %w", secrets.ErrNoKey, err)
		}
		return plain, err
	}
	if invalid > 0 {
		return decrypt, fmt.Errorf("reading the age keys: %d of %d values of Secret %s/%s are no keys: each line is "+
			"a key, AGE-SECRET-KEY-…", invalid, len(keys), v1alpha1.ServerNamespace, v1alpha1.AgeKeysSecret)
	}
	return decrypt, nil
}

// decrypters returns what decrypts files with the key service of the flags, if they name one.
func (f keyServiceFlags) decrypters() (decrypters, error) {
	if f.address == "" {
		return decrypters{}, nil
	}
	client, err := sops.NewKeyService(f.address)
	if err != nil {
		return decrypters{}, fmt.Errorf("reading --key-service: %w", err)
	}
	return decrypters{client, f.keys}, nil
}
