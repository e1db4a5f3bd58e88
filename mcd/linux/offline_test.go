package linux

import (
	"os"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
)

func TestNothingIsAddedToAMachineAtRest(t *testing.T) {
	dir := t.TempDir()
	said := ""
	h, root, err := OpenOffline(dir, func(line string) { said += line + "\n" })
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := h.Units.Restart(t.Context(), "a.service"); err != nil {
		t.Error(err)
	}
	if err := h.Power.Reboot(t.Context(), "because"); err != nil {
		t.Error(err)
	}
	if want := "simulated: restart a.service\nat rest: reboot (because)\n"; said != want {
		t.Errorf("it said %q, want %q", said, want)
	}
	status, err := h.OS.Status(t.Context())
	if err != nil || status.Support.Image || status.Support.Why == "" {
		t.Errorf("the OS is %+v, %v", status, err)
	}
	if err := h.OS.Stage(t.Context(), host.Step{Verb: host.SetImage}); err == nil {
		t.Error("an image was staged")
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		t.Errorf("there are %v, %v", there, err)
	}
}

func TestLookingAtAMachineLeavesNoTraceAndWaitsForNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root opens a machine")
	}
	dir := t.TempDir()
	_, done, err := OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	done()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	_, done, err = OpenHost(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	_, look, err := OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatalf("beside a daemon: %v", err)
	}
	look()
}
