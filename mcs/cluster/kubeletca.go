package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lookEvery is how often the cluster's CA is looked at again.
const lookEvery = time.Minute

// Where every API server says by which CA it knows its clients.
const (
	clientCAMap = "extension-apiserver-authentication"
	clientCAKey = "client-ca-file"
)

// readKubeletCA looks at the CA that new kubelets shall believe, and tells it where it is another than last. It is false
// where it cannot be read: before the first time nothing is served.
func (c *Cluster) readKubeletCA(ctx context.Context) bool {
	if c.KubeletCA == nil {
		return true
	}
	ca, err := c.clientCA(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		c.Log.Warn("reading the CA of the API server's clients, which new kubelets are given (or give --kubelet-ca)", "error", err)
		return false
	case err != nil:
		return false
	case bytes.Equal(ca, c.ca):
		return true
	}
	if err := c.Keeper.Put(kubeletCAKey, ca); err != nil {
		c.Log.Warn("keeping the kubelets' CA for a start without the API server", "error", err)
	}
	c.ca = ca
	c.KubeletCA(ca)
	return true
}

// followKubeletCA tells changes of it until the context ends.
func (c *Cluster) followKubeletCA(ctx context.Context) {
	if c.KubeletCA == nil {
		return
	}
	tick := time.NewTicker(lookEvery)
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	read := &corev1.ConfigMap{}
	if err := c.api.core.Get().Namespace(metav1.NamespaceSystem).Resource("configmaps").Name(clientCAMap).Do(ctx).Into(read); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", metav1.NamespaceSystem, clientCAMap, err)
	}
	ca := read.Data[clientCAKey]
	if ca == "" {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", metav1.NamespaceSystem, clientCAMap, errors.New("it has no "+clientCAKey))
	}
	return []byte(ca), nil
}
