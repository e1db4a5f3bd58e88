package http

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// dueTimeout is how long a machine waits for what is made and counted for it before it is told to ask again. Ignition waits
// 10 s for the head of an answer; a use that is counted after that would be lost.
const dueTimeout = 5 * time.Second

// due is what has to be done for an answer before its first byte.
type due struct {
	tokens Tokens
	joiner Joiner
}

// settle makes the bootstrap token that the body needs, "" where it needs none, and counts the use of the token that admitted
// the request. In this order: what was made and not used ends by itself, a use that was counted is gone.
func (d due) settle(ctx context.Context, a *answer, now time.Time) (join string, err error) {
	if !a.body.Joins() && !a.who.counts() {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, dueTimeout)
	defer cancel()
	if a.body.Joins() {
		if join, err = d.mint(ctx, a); err != nil {
			return "", notNow("CannotMint", "no bootstrap token can be made", err)
		}
	}
	if !a.who.counts() {
		return join, nil
	}
	use := v1alpha1.TokenUse{Time: metav1.NewTime(now), Address: a.from.String(), Config: a.offer.Config(), Commit: a.offer.Commit()}
	err = d.tokens.Use(ctx, a.who.token, use)
	var refused *token.Refusal
	switch {
	case err == nil:
		return join, nil
	case errors.As(err, &refused):
		return "", err
	}
	return "", notNow("CannotCount", "the use of the provisioning token cannot be counted", err)
}

func (d due) mint(ctx context.Context, a *answer) (string, error) {
	if d.joiner == nil {
		return "", errors.New("this server was given nothing to make one with")
	}
	f := For{Pool: a.pool, Node: a.who.node, Address: a.from.String(), Attested: !a.who.open}
	if a.who.counts() {
		f.Token = a.who.token
	}
	join, err := d.joiner.Mint(ctx, f)
	if err == nil && len(join) != mcs.TokenLength {
		err = fmt.Errorf("what was made has %d characters instead of %d", len(join), mcs.TokenLength)
	}
	return join, err
}
