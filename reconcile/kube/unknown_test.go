package kube_test

import (
	"errors"
	"io"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// TestAWriteIsLookedUpOnlyAfterAMissingAnswer: an answer needs no look, and a failed look decides nothing.
func TestAWriteIsLookedUpOnlyAfterAMissingAnswer(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", io.EOF)
	away := errors.New("the API server is away")
	for says, c := range map[string]struct {
		write, look              error
		isWritten                bool
		looks, succeeds, unknown bool
	}{
		"it was written":                   {succeeds: true},
		"it was refused":                   {write: conflict},
		"no answer, and it was written":    {write: io.EOF, isWritten: true, looks: true, succeeds: true},
		"no answer, and it was not":        {write: io.EOF, looks: true, unknown: true},
		"no answer, and nobody can say so": {write: io.EOF, look: away, looks: true, unknown: true},
	} {
		looked := false
		err := kube.AfterWrite(c.write, func() (bool, error) {
			looked = true
			return c.isWritten, c.look
		})
		if looked != c.looks || (err == nil) != c.succeeds || fault.IsUnknown(err) != c.unknown ||
			c.look != nil && !errors.Is(err, c.look) {
			t.Errorf("%s: looked %t, %v", says, looked, err)
		}
	}
}
