package machineconfig_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

func TestSizeText(t *testing.T) {
	for bytes, want := range map[int64]string{
		1: "1 byte", 1023: "1023 bytes", 1024: "1 KiB", 700_000: "684 KiB", 1<<20 - 1: "1 MiB", 1 << 20: "1 MiB",
		3 << 19: "1.5 MiB", 2<<20 + 10: "2 MiB", 10<<20 - 1: "10 MiB", 100 << 20: "100 MiB", 97_517_568: "93 MiB",
		5 << 30: "5120 MiB",
	} {
		if got := machineconfig.SizeText(bytes); got != want {
			t.Errorf("%d bytes: %q, want %q", bytes, got, want)
		}
	}
}
