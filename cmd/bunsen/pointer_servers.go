package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
)

// Where the machine-config-server publishes what new machines need to know of it. It is no secret.
const (
	serverNamespace = "bunsen-system"
	serverConfigMap = "machine-config-server-ca"
	// authorityKey has the certificates of its CA, urlKey its URL as new machines reach it, which a person may set.
	authorityKey, urlKey = "ca.crt", "server"
)

// servers is what a cluster tells of its machine-config-servers.
type servers struct {
	// published is nil where there is none.
	published map[string]string
	// listen are the addresses that replicas report which are up.
	listen []string
}

func readServers(ctx context.Context, c client.Client) (servers, error) {
	var out servers
	var published corev1.ConfigMap
	switch err := c.Get(ctx, client.ObjectKey{Namespace: serverNamespace, Name: serverConfigMap}, &published); {
	case err == nil:
		out.published = published.Data
	case !apierrors.IsNotFound(err):
		return out, unread("ConfigMap "+serverNamespace+"/"+serverConfigMap, err)
	}
	var leases coordinationv1.LeaseList
	// Who may not read them is asked for the URL instead.
	if c.List(ctx, &leases, client.InNamespace(serverNamespace), client.MatchingLabels{v1alpha1.ServerLabel: v1alpha1.ServerComponent}) != nil {
		return out, nil
	}
	told := inspect.NewStatus(inspect.Cluster{Leases: leases.Items}, time.Now()).Servers
	if told == nil {
		return out, nil
	}
	for _, r := range told.Replicas {
		if r.Alive && r.Report != nil {
			out.listen = append(out.listen, r.Report.Listen)
		}
	}
	return out, nil
}

// authority is the CA's certificates.
func (s servers) authority() ([]byte, error) {
	if text := s.published[authorityKey]; text != "" {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("whom to believe is not known: ConfigMap %s/%s has no %s; does a machine-config-server run in the cluster? "+
		"--ca FILE names its CA's certificate, and --no-ca trusts those of the machine's image", serverNamespace, serverConfigMap, authorityKey)
}

// url is how new machines reach the server: as somebody wrote it down, else the one address that servers listen on.
func (s servers) url() (string, error) {
	if text := strings.TrimSpace(s.published[urlKey]); text != "" {
		return text, nil
	}
	var urls []string
	for _, l := range s.listen {
		at, err := netip.ParseAddrPort(l)
		if err != nil || at.Addr().IsUnspecified() || at.Addr().IsLoopback() || at.Addr().IsLinkLocalUnicast() {
			continue // it says nothing of how machines get there
		}
		if u := "https://" + at.String(); !slices.Contains(urls, u) {
			urls = append(urls, u)
		}
	}
	const fix = "say it with --server https://HOST:22623, or once for all: kubectl -n " + serverNamespace + " patch configmap " + serverConfigMap + " -p '{\"data\":{\"" + urlKey + "\":\"https://HOST:22623\"}}'"
	switch len(urls) {
	case 0:
		return "", errors.New("how new machines reach the server is not known: " + fix)
	case 1:
		return urls[0], nil
	}
	slices.Sort(urls)
	return "", fmt.Errorf("there is more than one server (%s): %s, with an address that leads to all of them", strings.Join(urls, ", "), fix)
}
