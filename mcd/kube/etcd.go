package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// limit is how long one request may take.
const limit = 5 * time.Second

// maxAnswer is the maximum size of an answer in bytes.
const maxAnswer = 1 << 20

// installation has the files of a distribution that a client of etcd needs.
type installation struct{ manifest, ca, cert, key string }

var installations = []installation{
	{
		"/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/pki/etcd/ca.crt",
		"/etc/kubernetes/pki/etcd/healthcheck-client.crt", "/etc/kubernetes/pki/etcd/healthcheck-client.key",
	},
	{
		"", "/var/lib/rancher/k3s/server/tls/etcd/server-ca.crt", "/var/lib/rancher/k3s/server/tls/etcd/client.crt",
		"/var/lib/rancher/k3s/server/tls/etcd/client.key",
	},
	{
		"", "/var/lib/rancher/rke2/server/tls/etcd/server-ca.crt", "/var/lib/rancher/rke2/server/tls/etcd/client.crt",
		"/var/lib/rancher/rke2/server/tls/etcd/client.key",
	},
}

// defaultEndpoint is where etcd answers if no manifest names another address.
const defaultEndpoint = "https://127.0.0.1:2379"

// listenURL finds the first client URL in the manifest of a static pod.
var listenURL = regexp.MustCompile(`--listen-client-urls=(https://[^,\s"']+)`)

// AskEtcd returns the state of etcd's members. Ask returns nil on a node without a member of etcd. The function read
// reads a file of the node.
func AskEtcd(ctx context.Context, read func(path string) ([]byte, error)) *v1alpha1.EtcdReport {
	for _, at := range installations {
		client, endpoint, err := open(at, read)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var report v1alpha1.EtcdReport
		if err == nil {
			report, err = count(ctx, client, endpoint)
			client.CloseIdleConnections()
		}
		if err != nil {
			report.Problem = err.Error()
			report.Down = errors.Is(err, syscall.ECONNREFUSED)
		}
		return &report
	}
	return nil
}

// open returns a client for the etcd of an installation. The error is fs.ErrNotExist if the node lacks a file of the
// installation.
func open(at installation, read func(string) ([]byte, error)) (*http.Client, string, error) {
	endpoint := defaultEndpoint
	if at.manifest != "" {
		text, err := read(at.manifest)
		if err != nil {
			return nil, "", fmt.Errorf("reading %s: %w", at.manifest, err)
		}
		if found := listenURL.FindSubmatch(text); found != nil {
			endpoint = string(found[1])
		}
	}
	var files [3][]byte
	for i, p := range []string{at.ca, at.cert, at.key} {
		var err error
		if files[i], err = read(p); err != nil {
			return nil, "", fmt.Errorf("reading %s: %w", p, err)
		}
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(files[0]) {
		return nil, "", fmt.Errorf("reading %s: it has no certificate", at.ca)
	}
	pair, err := tls.X509KeyPair(files[1], files[2])
	if err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", at.cert, err)
	}
	config := &tls.Config{RootCAs: cas, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: config}, Timeout: limit,
		// The client certificate is for the members only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, endpoint, nil
}

// members has the fields of etcd's member list that the package uses.
type members struct {
	// Header names the member that answered: that of this node.
	Header struct {
		MemberID string `json:"member_id"`
	} `json:"header"`
	Members []struct {
		ID         string   `json:"ID"`
		ClientURLs []string `json:"clientURLs"`
		IsLearner  bool     `json:"isLearner"`
	} `json:"members"`
}

// count asks each voting member for its health. A member that has not started yet has no address, and is not healthy.
func count(ctx context.Context, client *http.Client, endpoint string) (v1alpha1.EtcdReport, error) {
	var all members
	if err := call(ctx, client, http.MethodPost, endpoint+"/v3/cluster/member/list", &all); err != nil {
		return v1alpha1.EtcdReport{}, fmt.Errorf("reading the members of etcd: %w", err)
	}
	report := v1alpha1.EtcdReport{Down: true}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range all.Members {
		if m.IsLearner {
			continue
		}
		report.Members++
		if len(m.ClientURLs) == 0 {
			continue
		}
		asked.Go(func() {
			var health struct{ Health string }
			if err := call(ctx, client, http.MethodGet, m.ClientURLs[0]+"/health", &health); err == nil &&
				health.Health == "true" {
				mu.Lock()
				defer mu.Unlock()
				report.Healthy++
				report.Down = report.Down && m.ID != all.Header.MemberID
			}
		})
	}
	asked.Wait()
	if report.Members == 0 {
		return report, errors.New("reading the members of etcd: it names none")
	}
	return report, nil
}

// call sends one request, and reads the answer as JSON.
func call(ctx context.Context, client *http.Client, method, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(`{"linearizable":false}`)))
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into)
}
