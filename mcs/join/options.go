package join

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The shortest and the longest lifetime of a token. MaxTTL limits how long a leaked token is valid.
const (
	MinTTL = time.Minute
	MaxTTL = 90 * 24 * time.Hour
)

// TokenOptions are the options of a new token.
type TokenOptions struct {
	// Pool is the pool whose config the token authorizes to read.
	Pool string
	// Node is the node that the token is for; empty for any machine of the pool.
	Node string
	// Uses is how often the token can be used; 0: without a limit.
	Uses int32
	// TTL is the lifetime, at least MinTTL and at most MaxTTL.
	TTL time.Duration
}

// Check returns every error in the options. The errors name the flags of the command line.
func (g TokenOptions) Check() error {
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
	if g.TTL < MinTTL || g.TTL > MaxTTL {
		errs = append(errs, fmt.Errorf("--ttl %s: it must be between 1m and 90d; create a new token when this one "+
			"expires", g.TTL))
	}
	return errors.Join(errs...)
}

// Object returns the ProvisioningToken with all options and the token's hash. The token expires at a whole second,
// because times in objects have no fractions of a second.
func (g TokenOptions) Object(t Token, now time.Time) *v1alpha1.ProvisioningToken {
	return &v1alpha1.ProvisioningToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProvisioningToken"},
		ObjectMeta: metav1.ObjectMeta{Name: t.ID},
		Spec: v1alpha1.ProvisioningTokenSpec{
			Pool: g.Pool, Node: g.Node, Uses: g.Uses, Hash: t.Hash(),
			Expires: metav1.NewTime(now.Add(g.TTL).UTC().Truncate(time.Second)),
		},
	}
}
