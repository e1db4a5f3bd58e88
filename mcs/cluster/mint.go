package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// joinWithin is how long a machine has from its first config to its first certificate.
	joinWithin = time.Hour
	// joinGroup is the group that a minted token authenticates as, beside system:bootstrappers, which all are in. All that it
	// may do is bound to it in config/rbac/server.yaml.
	joinGroup = v1alpha1.BootstrapGroup
	// mintsAtOnce is how many are on their way to the API server at once. More would not be faster, and in a storm of machines
	// all would be late: those that wait here and give up have cost nothing.
	mintsAtOnce = 32
	// mintTries is how many ids are tried before one is free, out of two thousand million.
	mintTries = 5
)

// The parts of a bootstrap token (Kubernetes, bootstrap tokens: `[a-z0-9]{6}\.[a-z0-9]{16}`).
const (
	mintedID     = 6
	mintedSecret = 16
	alphabet     = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// For is whom a bootstrap token is minted for, as its description says: Token is the id of the provisioning token that the
// machine showed, or empty. It is an alias, so that who asks needs nothing of this package.
type For = struct {
	Pool, Node, Token, Address string
	// Attested tells that a token or a certificate let the machine in for this pool, and not that everyone is let in.
	Attested bool
}

// Mint makes a bootstrap token for one machine: good for an hour, to authenticate with and nothing else, in a group that may
// ask for a kubelet's certificate and nothing else. The text that it returns is secret.
func (c *Cluster) Mint(ctx context.Context, machine For) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case c.mints <- struct{}{}:
		defer func() { <-c.mints }()
	case <-ctx.Done():
		return "", fmt.Errorf("minting a bootstrap token, which %d others wait for, too: %w", mintsAtOnce, ctx.Err())
	}
	if c.minted.spent(c.Now()) {
		return "", fmt.Errorf("minting a bootstrap token: %d of this server are good already, each for an hour; `kubectl -n kube-system get secrets` tells for whom", mintsAnHour)
	}
	for try := 1; ; try++ {
		id, secret := draw(mintedID), draw(mintedSecret)
		err := c.api.core.Post().Namespace(metav1.NamespaceSystem).Resource("secrets").Body(minted(id, secret, machine, c.Now())).Do(ctx).Error()
		if err == nil {
			c.minted.add(c.Now())
			return id + "." + secret, nil
		}
		if !apierrors.IsAlreadyExists(err) || try == mintTries {
			return "", fmt.Errorf("minting a bootstrap token: %w", err)
		}
	}
}

// minted is a bootstrap token as the API server reads it.
func minted(id, secret string, machine For, now time.Time) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: metav1.NamespaceSystem, Labels: map[string]string{"app.kubernetes.io/part-of": "bunsen"}},
		Type:       corev1.SecretType("bootstrap.kubernetes.io/token"),
		StringData: map[string]string{
			"token-id":                       id,
			"token-secret":                   secret,
			"expiration":                     now.Add(joinWithin).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true",
			"auth-extra-groups":              groups(machine),
			"description":                    described(machine),
		},
	}
}

// groups are those that a minted token authenticates as. The API server copies them into the certificate request of the machine,
// which so says for which pool the server let it in.
func groups(machine For) string {
	if group := v1alpha1.PoolGroup(machine.Pool, machine.Node); machine.Attested && group != "" {
		return joinGroup + "," + group
	}
	return joinGroup
}

// described is what people read of a bootstrap token.
func described(machine For) string {
	text := "bunsen: for a machine of pool " + machine.Pool
	if machine.Node != "" {
		text += ", node " + machine.Node
	}
	text += ", that asked from " + machine.Address
	if machine.Token != "" {
		text += " with token " + machine.Token
	}
	return text
}

// draw makes n characters of the alphabet, each as likely as the others.
func draw(n int) string {
	text := make([]byte, 0, n)
	var random [32]byte
	for {
		_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
		for _, b := range random {
			if int(b) >= 256/len(alphabet)*len(alphabet) {
				continue
			}
			if text = append(text, alphabet[int(b)%len(alphabet)]); len(text) == n {
				return string(text)
			}
		}
	}
}
