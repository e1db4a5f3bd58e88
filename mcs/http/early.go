package http

import (
	"errors"

	"github.com/bunsen-os/bunsen/mcs/token"
)

// early makes a token that is not known a reason to ask again, where not all tokens are known yet: Ignition would give up
// after a 401. A secret that is wrong reads the same, as ever.
func early(err error) error {
	var refused *token.Refusal
	if flood(err) || !errors.As(err, &refused) || refused.Reason != token.Unknown && refused.Reason != token.Wrong {
		return err
	}
	return notNow("NotSynced", "the server has not read the provisioning tokens yet", err)
}
