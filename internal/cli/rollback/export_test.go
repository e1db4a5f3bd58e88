package rollback

import (
	"context"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TokenFor returns the API and the token, which may be that of --token-from, for the pull request of a clone with this
// address.
func TokenFor(o Options, fromFile, address string, isTemporary bool,
	hook v1alpha1.WebhookType,
) (api, token string, notes []string) {
	src := &v1alpha1.GitSource{}
	if hook != "" {
		src.Spec.Webhook = &v1alpha1.Webhook{Type: hook}
	}
	j := &job{
		Options: o, choice: Choice{Source: src},
		clone: clone{address: address, isTemporary: isTemporary},
	}
	s := j.site()
	return s.Target.API, j.token(s, fromFile), j.result.Notes
}

// GitIn returns what git prints in the repository of a directory.
func GitIn(ctx context.Context, dir string, args ...string) (string, error) {
	p, err := open(ctx, dir)
	if err != nil {
		return "", err
	}
	return p.line(ctx, args...)
}

// Opened returns what git says of the clone that a directory is in.
func (o Options) Opened(ctx context.Context, dir, url string, args ...string) (string, error) {
	c, err := o.openClone(ctx, dir, url)
	if err != nil {
		return "", err
	}
	return c.line(ctx, args...)
}
