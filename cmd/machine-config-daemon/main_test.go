package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestACallThatCannotBeMeantIsAUsageError(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"bogus"},
		{"start", "--bogus"},
		{"start", "extra"},
		{"apply"},
		{"apply", "--once-from", "x", "-o", "yaml"},
		{"firstboot", "extra"},
		{"drift"},
		{"drift", "show"},
	} {
		root := newRoot()
		root.SetArgs(args)
		var usage *usageError
		if err := root.ExecuteContext(t.Context()); !errors.As(err, &usage) {
			t.Errorf("%q: %v is no usage error", args, err)
		}
	}
}

// TestWhatBunsenRunsInThePodIsUnderstood: bunsen drift runs these in the daemon's container.
func TestWhatBunsenRunsInThePodIsUnderstood(t *testing.T) {
	for _, verb := range []string{"show", "export"} {
		cmd, rest, err := newRoot().Find([]string{"drift", verb, "/etc/chrony.conf", "--root=/rootfs"})
		if err != nil || cmd.Name() != verb {
			t.Fatalf("drift %s leads to %s: %v", verb, cmd.Name(), err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("drift %s: %v", verb, err)
		}
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if cmd.Short == "" || cmd.Name() != "version" && cmd.Name() != "help" && cmd.Name() != "completion" &&
			cmd.Example == "" {
			t.Errorf("%s has no help or example", cmd.Name())
		}
	}
}

func TestStartSaysWhatIsProvenAndWhatIsRefused(t *testing.T) {
	help := newStart().Long
	for _, want := range []string{
		"applied in place", osParts, "password hashes", "Unreconcilable",
		"--health-timeout",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not say %q", want)
		}
	}
}

func TestAMachineThatStaysUpAfterItsRebootIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := awaitDown(t.Context()); err == nil || !strings.Contains(err.Error(), "still up") {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := awaitDown(ended); err != nil {
			t.Error(err)
		}
	})
}
