package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

const (
	// in addition to system:bootstrappers; config/rbac/server.yaml grants all of its rights
	bootstrapGroup = v1alpha1.BootstrapGroup
	// until one is free; there are two thousand million
	idAttempts = 5
)

// Kubernetes, bootstrap tokens: `[a-z0-9]{6}\.[a-z0-9]{16}`
const (
	tokenIDLength     = 6
	tokenSecretLength = 16
	alphabet          = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// CreateBootstrapToken creates a bootstrap token for one machine, valid for an hour. It authenticates only as a member
// of a group that may request a kubelet's certificate and nothing else. The text is secret.
func (c *Cluster) CreateBootstrapToken(ctx context.Context, machine mcs.JoiningMachine) (string, error) {
	waiting, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	end, err := c.tokenLimits.Begin(waiting, RequesterOf(machine), c.Now())
	if err != nil {
		return "", fmt.Errorf("creating a bootstrap token: %w", err)
	}
	// A client that disconnects does not cancel the write: whether the token exists would be unknown.
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	text, err := c.create(writing, machine)
	// A token whose creation got no answer counts, because it may exist. It expires without a use, and the machine gets
	// another one.
	end(err == nil || fault.IsUnknown(fault.APIRequest(err)), c.Now())
	if err != nil {
		return "", fmt.Errorf("creating a bootstrap token: %w", err)
	}
	return text, nil
}

// create finds a free id.
func (c *Cluster) create(ctx context.Context, machine mcs.JoiningMachine) (text string, err error) {
	for attempt := 1; ; attempt++ {
		id, secret := randomText(tokenIDLength), randomText(tokenSecretLength)
		err := c.api.core.Post().Namespace(metav1.NamespaceSystem).Resource("secrets").Body(bootstrapTokenSecret(id,
			secret, machine, c.Now())).Do(ctx).Error()
		if err == nil {
			return id + "." + secret, nil
		}
		if !apierrors.IsAlreadyExists(err) || attempt == idAttempts {
			return "", err
		}
	}
}

func bootstrapTokenSecret(id, secret string, machine mcs.JoiningMachine, now time.Time) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "bootstrap-token-" + id, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"app.kubernetes.io/part-of": "bunsen"},
		},
		Type: corev1.SecretType("bootstrap.kubernetes.io/token"),
		StringData: map[string]string{
			"token-id":                       id,
			"token-secret":                   secret,
			"expiration":                     now.Add(TokenTTL).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true",
			"auth-extra-groups":              groups(machine),
			"description":                    tokenDescription(machine),
		},
	}
}

// groups are what a bootstrap token authenticates as. The API server copies them into the machine's certificate
// request, which so names the pool to which the server admitted the machine.
func groups(machine mcs.JoiningMachine) string {
	if group := v1alpha1.PoolGroup(machine.Pool, machine.Node); machine.Attested && group != "" {
		return bootstrapGroup + "," + group
	}
	return bootstrapGroup
}

func tokenDescription(machine mcs.JoiningMachine) string {
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

// randomText returns n characters of the alphabet, all equally likely.
func randomText(n int) string {
	text := make([]byte, 0, n)
	var random [32]byte
	for {
		_, _ = rand.Read(random[:]) // Read never fails, because crypto/rand ends the process instead.
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

const (
	// of requests for bootstrap tokens at a time. More would not be faster, and when thousands of machines boot, all
	// would time out. One that times out while it waits costs nothing.
	maxRequests = 32
	// of one holder, and of one source of it, so that neither ever uses all of maxRequests
	maxHolderRequests = maxRequests / 2
	maxSourceRequests = maxRequests / 4
)

// ShareLimits limits how many bootstrap tokens the server creates, in all and for each requester. The zero value is
// ready to use.
type ShareLimits struct {
	mu     sync.Mutex
	shares tokenShares
	turns  mcs.Turns
}

// Begin waits until a requester may create one bootstrap token. The caller calls end afterwards.
func (l *ShareLimits) Begin(ctx context.Context, r Requester,
	now time.Time,
) (end func(created bool, now time.Time), err error) {
	l.mu.Lock()
	err = l.shares.reserve(r, now)
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	finish := func(created bool, now time.Time) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if created {
			l.shares.confirm(r, now)
		} else {
			l.shares.release(r)
		}
	}
	// From the narrowest on: what waits for the turns of all is at most what may run of each holder.
	endTurn, err := l.turns.Take(ctx, mcs.Limit{Key: r, Most: maxSourceRequests},
		mcs.Limit{Key: r.holder, Most: maxHolderRequests}, mcs.Limit{Most: maxRequests})
	if err != nil {
		finish(false, now)
		return nil, fmt.Errorf("waiting for other requests for bootstrap tokens, of which %d run at a time: %w",
			maxRequests, err)
	}
	return func(created bool, now time.Time) {
		endTurn()
		finish(created, now)
	}, nil
}
