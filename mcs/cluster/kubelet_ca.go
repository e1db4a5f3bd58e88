package cluster

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// caPollInterval is how often the server reads the CA of the API server's clients again.
const caPollInterval = time.Minute

// The ConfigMap and its key in which every API server publishes the CA of its clients.
const (
	clientCAMap = "extension-apiserver-authentication"
	clientCAKey = "client-ca-file"
)

// readKubeletCA reads the CA of the API server's clients and passes a changed CA to KubeletCA and NodeCA. New kubelets
// trust this CA, and it signs the kubelets' certificates. readKubeletCA returns false if new kubelets need the CA and
// readKubeletCA cannot read it. The server serves no config before it has this CA.
func (c *Cluster) readKubeletCA(ctx context.Context) bool {
	if c.KubeletCA == nil && c.NodeCA == nil {
		return true
	}
	ca, err := c.clientCA(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		c.Log.Warn("reading the CA of the API server's clients failed: new kubelets need it (or set --kubelet-ca), "+
			"and nodes authenticate by it", "error", err)
		return c.KubeletCA == nil
	case err != nil:
		return false
	case bytes.Equal(ca, c.ca):
		return true
	}
	if err := c.Cache.Put(kubeletCAKey, ca); err != nil {
		c.Log.Warn("caching the kubelets' CA failed", "error", err)
	}
	c.setCA(ca)
	return true
}

// setCA passes the CA of the API server's clients to NodeCA and KubeletCA.
func (c *Cluster) setCA(ca []byte) {
	c.ca = ca
	if c.NodeCA != nil {
		c.NodeCA(ca)
	}
	if c.KubeletCA != nil {
		c.KubeletCA(ca)
	}
}

// followKubeletCA calls readKubeletCA regularly until the context ends.
func (c *Cluster) followKubeletCA(ctx context.Context) {
	if c.KubeletCA == nil && c.NodeCA == nil {
		return
	}
	tick := time.NewTicker(caPollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.readKubeletCA(ctx)
		}
	}
}

func (c *Cluster) clientCA(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	read := &corev1.ConfigMap{}
	if err := c.api.core.Get().Namespace(metav1.NamespaceSystem).Resource("configmaps").Name(clientCAMap).Do(ctx).
		Into(read); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", metav1.NamespaceSystem, clientCAMap, err)
	}
	ca := read.Data[clientCAKey]
	if ca == "" {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: it has no %s", metav1.NamespaceSystem, clientCAMap,
			clientCAKey)
	}
	return []byte(ca), nil
}
