package up

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// apiClient reads objects as administrator. A start waits for the state of these objects.
type apiClient struct {
	url  string
	http *http.Client
}

// newAPIClient reads the CA file, and the administrator's certificate and key. The parameter pair is their path without
// the extension.
func newAPIClient(url, ca, pair string) (*apiClient, error) {
	cert, err := tls.LoadX509KeyPair(pair+".crt", pair+".key")
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	client, err := newHTTPClient(ca, cert)
	return &apiClient{url: url, http: client}, err
}

// newHTTPClient returns a client that trusts one CA only.
func newHTTPClient(ca string, own ...tls.Certificate) (*http.Client, error) {
	raw, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("reading the CA: %s has no certificate", ca)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: own}}
	return &http.Client{Transport: transport, Timeout: 5 * time.Second}, nil
}

// maxAnswer limits responses, in bytes.
const maxAnswer = 16 << 20

func get(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

func (c *apiClient) ready(ctx context.Context) error {
	_, err := get(ctx, c.http, c.url+"/readyz")
	return err
}

// list has the fields of Node and Lease lists that the client reads.
type list struct {
	Items []struct {
		Metadata struct{ Name string }
		Spec     struct{ RenewTime time.Time }
		Status   struct {
			Conditions []struct{ Type, Status string }
		}
	}
}

// notReady returns the hosts that are not Ready, or whose Lease has not been renewed since the given time. The Lease
// matters because a Ready condition may be older than the last stop.
func (c *apiClient) notReady(ctx context.Context, hosts []string, since time.Time) ([]string, error) {
	readyCount := map[string]int{}
	for _, path := range []string{"/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"} {
		raw, err := get(ctx, c.http, c.url+path)
		if err != nil {
			return hosts, err
		}
		var l list
		if err := json.Unmarshal(raw, &l); err != nil {
			return hosts, fmt.Errorf("reading %s: %w", path, err)
		}
		for _, item := range l.Items {
			ready := item.Spec.RenewTime.After(since)
			for _, cond := range item.Status.Conditions {
				ready = ready || cond.Type == "Ready" && cond.Status == "True"
			}
			if ready {
				readyCount[item.Metadata.Name]++
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return readyCount[h] == 2 }), nil
}
