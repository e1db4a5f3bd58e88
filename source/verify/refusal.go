package verify

import (
	"fmt"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func (k kind) malformed(format string, args ...any) error {
	return refuse("the %s does not have git's format, so two programs could read it differently: %s; create the %s "+
		"again with git",
		k, fmt.Sprintf(format, args...), k)
}

func (k kind) damaged(signer string) error {
	return refuse("the signature of %s does not match the %s, so the %s changed after the signature. Create the %s "+
		"again, and find out who changed it", signer, k, k, k)
}

func (k kind) unknownKey(signer string) error {
	return refuse("the key %s of the signature is not among the allowed keys. If you trust the key, add it to the "+
		"Secret of verify.secretRef; if not, find out who pushed the %s", signer, k)
}

func refuse(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonSignature, fmt.Errorf(format, args...))
}
