package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/test/lab"
)

func TestAHostBootsRebootsAndSurvivesAPowerCut(t *testing.T) {
	lab.Need(t)
	h := lab.Start(t, lab.Options{Name: "one", Prepare: func(root string) error {
		return os.WriteFile(root+"/etc/prepared", []byte("yes\n"), 0o644)
	}})
	if got := h.Do("cat", "/etc/prepared") + h.Do("systemctl", "is-system-running") + h.Do("hostname"); got != "yes\n"+
		"running\none\n" {
		t.Errorf("it says %q", got)
	}
	machine := h.Do("cat", "/etc/machine-id")
	seen := map[string]bool{h.BootID(): true}
	for n, down := range []func(){func() { h.Do("systemctl", "reboot") }, h.PowerCut, h.PowerCut} {
		down()
		h.AwaitBoot(t.Context(), n+2)
		seen[h.BootID()] = true
	}
	if len(seen) != 4 || h.Do("cat", "/etc/machine-id") != machine {
		t.Errorf("boot ids %v, machine %s", seen, machine)
	}
	if _, err := h.Exec(t.Context(), "sh", "-c", "echo said; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a program that fails says %v", err)
	}
}

func TestAHostRebootsWhileAProgramOfTheTestRunsInIt(t *testing.T) {
	lab.Need(t)
	h := lab.Start(t, lab.Options{Name: "one"})
	program := h.Command(t.Context(), "sleep", "infinity")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	h.Do("systemctl", "reboot")
	h.AwaitBoot(t.Context(), 2)
	if err := program.Wait(); err == nil {
		t.Error("the program outlived the boot")
	}
}

func TestHostsReachEachOtherAndWhatTheTestOffersAndNothingElse(t *testing.T) {
	lab.Need(t)
	n := lab.NewNetwork(t)
	one, two := lab.Launch(t, lab.Options{Name: "one", Network: n}), lab.Launch(t, lab.Options{Name: "two", Network: n})
	one.AwaitBoot(t.Context(), 1)
	two.AwaitBoot(t.Context(), 1)
	one.Do("ping", "-c1", "-W5", two.Address)

	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "from the test")
	})}
	defer server.Close()
	listener := n.Listen(0)
	go server.Serve(listener)
	own, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(own)
	for says, at := range map[string]string{
		"a listener": listener.Addr().String(),
		"a forward":  n.Forward(0, own.Addr().String()),
	} {
		if got := one.Do("curl", "--silent", "--show-error", "--max-time", "20", "http://"+at); got != "from the test" {
			t.Errorf("%s says %q", says, got)
		}
	}
	if out, err := one.Exec(t.Context(), "curl", "--silent", "--show-error", "--max-time", "20",
		"http://"+own.Addr().String()); err == nil {
		t.Errorf("it reaches this machine's loopback: %q", out)
	}
	conn, err := n.Dial(t.Context(), two.Address+":22")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if banner, err := bufio.NewReader(conn).ReadString('\n'); !strings.HasPrefix(banner, "SSH-2.0-") {
		t.Errorf("sshd says %q, %v", banner, err)
	}
	if out, err := n.Command(t.Context(), "ip", "-brief", "address").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), n.Address()) {
		t.Errorf("from the network: %v\n%s", err, out)
	}
}

// killedVariable is set in the process that TestWhatAKilledRunLeftIsSwept kills.
const killedVariable = "BUNSEN_LAB_KILLED"

func TestWhatAKilledRunLeftIsSwept(t *testing.T) {
	lab.Need(t)
	if os.Getenv(killedVariable) == "1" {
		h := lab.Start(t, lab.Options{Name: "killed", Network: lab.NewNetwork(t), Containers: true})
		fmt.Printf("leader %d\n", h.Leader())
		select {}
	}
	lab.Base(t) // so that the other finds it, which may have to be built first
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestWhatAKilledRunLeftIsSwept$")
	cmd.Env = append(os.Environ(), killedVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leader := 0
	if _, err := fmt.Fscanf(out, "leader %d\n", &leader); err != nil {
		t.Fatal(err)
	}
	root, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", leader))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()

	lab.NewNetwork(t)
	if again, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", leader)); err == nil && again == root {
		t.Errorf("its init is still there, process %d", leader)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), root) {
		t.Errorf("its network is still there: %s", root)
	}
}
