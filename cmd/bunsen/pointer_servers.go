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
	"github.com/bunsen-os/bunsen/mcs/pointer"
)

// Where the machine-config-server publishes what new machines need to know of it. It is no secret.
const (
	serverNamespace = "bunsen-system"
	serverConfigMap = "machine-config-server-ca"
	// authorityKey has the certificates of its CA, urlKey its URL as new machines reach it, which a person may set.
	authorityKey, urlKey = "ca.crt", "server"
	// publishedIn and urlSource name them for messages.
	publishedIn = "ConfigMap " + serverNamespace + "/" + serverConfigMap
	urlSource   = "the key " + urlKey + " of " + publishedIn
)

// servers is what a cluster tells of its machine-config-servers.
type servers struct {
	// published is nil where there is none.
	published map[string]string
	// up are the replicas that are, as they report.
	up []v1alpha1.ServerReport
}

func readServers(ctx context.Context, c client.Client) (servers, error) {
	var out servers
	var published corev1.ConfigMap
	switch err := c.Get(ctx, client.ObjectKey{Namespace: serverNamespace, Name: serverConfigMap}, &published); {
	case err == nil:
		out.published = published.Data
	case !apierrors.IsNotFound(err):
		return out, undone("reading "+publishedIn, err)
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
			out.up = append(out.up, *r.Report)
		}
	}
	return out, nil
}

// authority is the CA's certificates.
func (s servers) authority() ([]byte, error) {
	if text := s.published[authorityKey]; text != "" {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("whom to believe is not known: %s has no %s; does a machine-config-server run in the cluster? "+
		"--ca FILE names its CA's certificate, and --no-ca trusts those of the machine's image", publishedIn, authorityKey)
}

// url is how new machines reach the server: as somebody wrote it down, else the one address that servers listen on which
// can be believed by a CA; where none is given, any. caSource says where the CA is from.
func (s servers) url(ca []byte, caSource string) (string, error) {
	if text := strings.TrimSpace(s.published[urlKey]); text != "" {
		if err := pointer.CheckServer(text); err != nil {
			return "", fmt.Errorf("%s is %w; mend it there, or give --server", urlSource, err)
		}
		return text, nil
	}
	urls, others, err := s.reported(ca)
	if err != nil {
		return "", err
	}
	if len(urls) == 0 && len(others) > 0 {
		return "", anotherCA(others, caSource)
	}
	const fix = "say it with --server https://HOST:22623, or once for all: kubectl -n " + serverNamespace + " patch configmap " + serverConfigMap + " -p '{\"data\":{\"" + urlKey + "\":\"https://HOST:22623\"}}'"
	switch len(urls) {
	case 0:
		return "", errors.New("how new machines reach the server is not known: " + fix)
	case 1:
		return urls[0], nil
	}
	return "", fmt.Errorf("there is more than one server (%s): %s, with an address that leads to all of them", strings.Join(urls, ", "), fix)
}

// reported are the URLs of the servers that are up: those that can be believed by a CA, and the others, from which machines
// with that CA turn away. Where no CA is given, or a server does not say by whom it is believed, it can be.
func (s servers) reported(ca []byte) (urls, others []string, err error) {
	believed, err := pointer.Authorities(ca)
	if err != nil {
		return nil, nil, err
	}
	known := func(sum string) bool { return slices.Contains(believed, sum) }
	for _, r := range s.up {
		at, err := netip.ParseAddrPort(r.Listen)
		if err != nil || at.Addr().IsUnspecified() || at.Addr().IsLoopback() || at.Addr().IsLinkLocalUnicast() {
			continue // it says nothing of how machines get there
		}
		into := &urls
		if len(believed) > 0 && len(r.Authorities) > 0 && !slices.ContainsFunc(r.Authorities, known) {
			into = &others
		}
		if u := "https://" + at.String(); !slices.Contains(*into, u) {
			*into = append(*into, u)
		}
	}
	slices.Sort(urls)
	slices.Sort(others)
	return urls, others, nil
}

// fits says that a URL is that of a server from which machines with the CA turn away. Of other URLs nothing is known.
func (s servers) fits(server string, ca []byte, caSource string) error {
	urls, others, err := s.reported(ca)
	if server = strings.TrimSuffix(server, "/"); err != nil || slices.Contains(urls, server) || !slices.Contains(others, server) {
		return err
	}
	return anotherCA([]string{server}, caSource)
}

func anotherCA(urls []string, caSource string) error {
	return fmt.Errorf("the server at %s has its certificate from another CA than %s has: give --server and --ca", strings.Join(urls, ", "), caSource)
}
