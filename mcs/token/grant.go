package token

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// How long a token may last. The longest bounds for how long one that leaked is good.
const (
	Shortest = time.Minute
	Longest  = 90 * 24 * time.Hour
)

// Grant is what a token is made for.
type Grant struct {
	// Pool is the one whose config it gets.
	Pool string
	// Node is the one machine that it is for; empty for any machine of the pool.
	Node string
	// Uses is how often it gets it; 0 is any number.
	Uses int32
	// Lasts is for how long, of at least Shortest and at most Longest.
	Lasts time.Duration
}

// Check says everything that is wrong with a grant, in words of the command line.
func (g Grant) Check() error {
	var errs []error
	if bad := validation.IsDNS1123Subdomain(g.Pool); len(bad) > 0 {
		errs = append(errs, fmt.Errorf("--pool %q is no name of a pool: %s", g.Pool, strings.Join(bad, "; ")))
	}
	if bad := validation.IsDNS1123Subdomain(g.Node); g.Node != "" && len(bad) > 0 {
		errs = append(errs, fmt.Errorf("--node %q is no name of a node: %s", g.Node, strings.Join(bad, "; ")))
	}
	if g.Uses < 0 {
		errs = append(errs, fmt.Errorf("--uses %d: want 1 or more, or 0 for any number", g.Uses))
	}
	if g.Lasts < Shortest || g.Lasts > Longest {
		errs = append(errs, fmt.Errorf("--ttl %s: it must be between 1m and 90d; create a new token when this one expires", g.Lasts))
	}
	return errors.Join(errs...)
}

// Keep is the object that is kept of a token: all of the grant, and the token's hash. It ends at a whole second, as objects do.
func (g Grant) Keep(t Token, now time.Time) *v1alpha1.ProvisioningToken {
	return &v1alpha1.ProvisioningToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProvisioningToken"},
		ObjectMeta: metav1.ObjectMeta{Name: t.ID},
		Spec: v1alpha1.ProvisioningTokenSpec{
			Pool: g.Pool, Node: g.Node, Uses: g.Uses, Hash: t.Hash(),
			Expires: metav1.NewTime(now.Add(g.Lasts).UTC().Truncate(time.Second)),
		},
	}
}
