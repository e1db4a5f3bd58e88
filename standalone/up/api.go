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

// apiClient asks the API server, as its administrator, the few things that a start waits for.
type apiClient struct {
	url  string
	http *http.Client
}

// newAPIClient takes the authority's file and the administrator's pair without its endings.
func newAPIClient(url, ca, pair string) (*apiClient, error) {
	cert, err := tls.LoadX509KeyPair(pair+".crt", pair+".key")
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	client, err := trusting(ca, cert)
	return &apiClient{url: url, http: client}, err
}

// trusting returns a client that believes one authority only.
func trusting(ca string, own ...tls.Certificate) (*http.Client, error) {
	raw, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("reading the authority: %s holds no certificate", ca)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: own}}
	return &http.Client{Transport: transport, Timeout: 5 * time.Second}, nil
}

// maxAnswer is far above any answer asked for here, in bytes.
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
		return nil, fmt.Errorf("%s answers %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

func (c *apiClient) ready(ctx context.Context) error {
	_, err := get(ctx, c.http, c.url+"/readyz")
	return err
}

// list is the part of Node and Lease lists that is looked at.
type list struct {
	Items []struct {
		Metadata struct{ Name string }
		Spec     struct{ RenewTime time.Time }
		Status   struct {
			Conditions []struct{ Type, Status string }
		}
	}
}

// sleeping returns those of the hosts that are not Ready, or whose lease was not
// renewed since the given time: a Ready from before the last stop proves nothing.
func (c *apiClient) sleeping(ctx context.Context, hosts []string, since time.Time) ([]string, error) {
	awake := map[string]int{}
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
				awake[item.Metadata.Name]++
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return awake[h] == 2 }), nil
}
