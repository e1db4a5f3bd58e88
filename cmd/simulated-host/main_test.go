package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/process"
)

func TestACallThatCannotBeMeantIsAUsageError(t *testing.T) {
	for _, args := range [][]string{{"--node-name", "n"}, {"--bogus"}, {"extra", "--root", "x"}} {
		root := newRoot()
		root.SetArgs(args)
		var usage *process.UsageError
		if err := root.ExecuteContext(t.Context()); !errors.As(err, &usage) {
			t.Errorf("%q: %v is no usage error", args, err)
		}
	}
}

func TestAMissingKubeconfigIsNamed(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{"--root", t.TempDir(), "--kubeconfig", "/nowhere/kubeconfig"})
	err := root.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "/nowhere/kubeconfig") ||
		!strings.Contains(err.Error(), "--kubeconfig") {
		t.Error(err)
	}
}
