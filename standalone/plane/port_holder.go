package plane

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// socket is one listening socket as the kernel lists it.
type socket struct{ inode, uid string }

// listenState is TCP_LISTEN in /proc/net/tcp.
const listenState = "0A"

// PortHolder describes the process that listens on a TCP port of this host, such as "etcd (pid 123: etcd --data-dir
// …)". PortHolder names only the user of a process that it cannot read. If no process listens, PortHolder returns "".
func PortHolder(port int) string {
	var found []socket
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		found = append(found, listeners(f, port)...)
		f.Close()
	}
	for _, s := range found {
		if pid := processOf(s.inode); pid != "" {
			return describeProcess(pid)
		}
	}
	if len(found) > 0 {
		return "a process of the user with id " + found[0].uid
	}
	return ""
}

// listeners reads a table in the form of /proc/net/tcp.
func listeners(table io.Reader, port int) []socket {
	var out []socket
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(table); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) > 9 && strings.HasSuffix(f[1], suffix) && f[3] == listenState {
			out = append(out, socket{inode: f[9], uid: f[7]})
		}
	}
	return out
}

// processOf returns the id of a process that has opened the socket, or "".
func processOf(inode string) string {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && target == "socket:["+inode+"]" {
			return strings.Split(fd, "/")[2]
		}
	}
	return ""
}

// commandWidth is the maximum length of a command line in a message, so that the rest of the message stays visible.
const commandWidth = 60

func describeProcess(pid string) string {
	if n, err := strconv.Atoi(pid); err == nil && n == os.Getpid() {
		return "this process (pid " + pid + ")"
	}
	raw, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	words := strings.FieldsFunc(string(raw), func(r rune) bool { return r == 0 })
	if len(words) == 0 {
		return "pid " + pid
	}
	// The message has only the first words of the command line, because a flag after these words may be a secret.
	command := []rune(strings.Join(words[:min(2, len(words))], " "))
	if len(command) > commandWidth {
		command = append(command[:commandWidth], '…')
	}
	return fmt.Sprintf("%s (pid %s: %s)", filepath.Base(words[0]), pid, string(command))
}
