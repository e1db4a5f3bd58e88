package machineconfig

import (
	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// Config is one MachineConfig's spec in typed form. The zero value is the empty config.
type Config struct {
	// Ignition is the inline config, up-converted to 3.5.0.
	Ignition ign.Config
	// HasIgnition is set if spec.config exists, also if it is empty.
	HasIgnition bool
	// KernelArguments as written; one entry may hold several arguments separated by blanks.
	KernelArguments []string
	// Extensions as written.
	Extensions []string
	// KernelType is "", "default", "realtime" or "64k-pages"; "" means default.
	KernelType string
	// FIPS enables FIPS mode.
	FIPS bool
	// OSImageURL is the OS image, or "".
	OSImageURL string
	// ExtensionsImage is spec.baseOSExtensionsContainerImage, or "".
	ExtensionsImage string
}
