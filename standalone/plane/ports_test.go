package plane

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// hold is what a foreign program does in these tests: it listens, says where, and stays.
func hold() {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	os.Exit(0)
}

func foreignListener(t *testing.T) (port, pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"=hold")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return port, cmd.Process.Pid
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestATakenPortIsNamedWithItsPurposeItsHolderAndItsFlag(t *testing.T) {
	taken, pid := foreignListener(t)
	err := CheckPorts([]Port{
		{Number: freePort(t), Purpose: "database", Flag: "--etcd-port"},
		{Number: taken, Purpose: "Kubernetes API", Flag: "--api-port"},
	})
	var conflict *PortConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("got %v, want a PortConflictError", err)
	}
	if len(conflict.Taken) != 1 {
		t.Fatalf("%d ports are reported taken, want 1: %v", len(conflict.Taken), err)
	}
	want := fmt.Sprintf("port %d for the Kubernetes API is in use by plane.test (pid %d: ", taken, pid)
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("message is\n%s\nwant it to begin\n%s", err, want)
	}
	if !strings.Contains(err.Error(), "--api-port") {
		t.Errorf("message lacks the flag: %s", err)
	}
}

func TestEveryTakenPortIsNamedAtOnce(t *testing.T) {
	one, _ := foreignListener(t)
	two, _ := foreignListener(t)
	err := CheckPorts([]Port{{one, "a", "--a"}, {two, "b", "--b"}})
	if got := strings.Count(fmt.Sprint(err), "is in use by"); got != 2 {
		t.Errorf("%d ports are named, want 2:\n%v", got, err)
	}
}

func TestFreePortsStayFree(t *testing.T) {
	p := Port{Number: freePort(t), Purpose: "x", Flag: "--x"}
	for range 2 {
		if err := CheckPorts([]Port{p}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPortsThatCannotBeMeant(t *testing.T) {
	for name, tc := range map[string]struct {
		ports []Port
		want  string
	}{
		"one number for two purposes": {[]Port{{7000, "a", "--a"}, {7000, "b", "--b"}}, "--a and --b are both 7000"},
		"a number above the range":    {[]Port{{65536, "a", "--a"}}, "--a is 65536: a port is 1 to 65535"},
		"no number":                   {[]Port{{0, "a", "--a"}}, "--a is 0: a port is 1 to 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckPorts(tc.ports); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
