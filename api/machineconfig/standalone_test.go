package machineconfig_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

func TestStandaloneKeepsKernelArgumentsAndNamesWhatIgnitionCannotExpress(t *testing.T) {
	c := machineconfig.Config{KernelArguments: []string{`quiet dyndbg="file a b"`, "quiet"}, KernelType: "default"}
	c.Ignition.KernelArguments.ShouldExist = []ign.KernelArgument{"audit=1"}
	before := slices.Clone(c.Ignition.KernelArguments.ShouldExist)
	got, leftOut, err := machineconfig.Standalone(c)
	if err != nil || len(leftOut) > 0 {
		t.Fatal(leftOut, err)
	}
	if diff := cmp.Diff([]ign.KernelArgument{"audit=1", `dyndbg="file a b"`, "quiet"},
		got.Ignition.KernelArguments.ShouldExist); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, c.Ignition.KernelArguments.ShouldExist); diff != "" {
		t.Error("the argument changed:", diff)
	}
	_, leftOut, _ = machineconfig.Standalone(machineconfig.Config{
		OSImageURL: "a", ExtensionsImage: "b",
		Extensions: []string{"c"}, KernelType: "realtime", FIPS: true,
	})
	if diff := cmp.Diff([]string{"osImageURL", "baseOSExtensionsContainerImage", "extensions", "kernelType", "fips"},
		leftOut); diff != "" {
		t.Error(diff)
	}
}
