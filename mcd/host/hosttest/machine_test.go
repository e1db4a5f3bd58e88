package hosttest_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

func TestTheMachineInMemoryConforms(t *testing.T) {
	hosttest.Conformance(t, func(*testing.T) host.Host { return hosttest.NewMachine().Host() })
}
