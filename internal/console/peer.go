package console

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// socketTables list the TCP sockets of Linux with their owners. A program may connect to an IPv4 address with a socket
// for IPv6.
var socketTables = []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"}

// sameUser accepts connections of programs that the user of this process runs, and of root. On systems without the
// tables, and for a connection that is in none of them, sameUser cannot know the user, and accepts the connection.
type sameUser struct{ net.Listener }

// Accept closes connections of other users, and returns the first connection of the same user.
func (l sameUser) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		owner, known := ownerOf(conn)
		if !known || mayConnect(owner, os.Getuid(), os.Getenv("SUDO_UID")) {
			return conn, nil
		}
		_ = conn.Close() // The other user gets no answer.
	}
}

// mayConnect reports whether a user may connect to the console of another user. The parameter sudo is the user who ran
// sudo, or empty.
func mayConnect(owner, own int, sudo string) bool {
	return owner == 0 || owner == own || strconv.Itoa(owner) == sudo
}

// ownerOf returns the user whose program opened the other end of a connection on this machine.
func ownerOf(conn net.Conn) (uid int, known bool) {
	client, errClient := netip.ParseAddrPort(conn.RemoteAddr().String())
	server, errServer := netip.ParseAddrPort(conn.LocalAddr().String())
	if errClient != nil || errServer != nil {
		return 0, false
	}
	for _, name := range socketTables {
		table, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if uid, known := ownerIn(table, client, server); known {
			return uid, true
		}
	}
	return 0, false
}

// ownerIn finds a socket in a table: the second column is its own address, the third that of the other end, and the
// eighth its owner.
func ownerIn(table []byte, own, other netip.AddrPort) (uid int, known bool) {
	for line := range bytes.Lines(table) {
		columns := strings.Fields(string(line))
		if len(columns) < 8 || !slices.Contains(tableTexts(own), columns[1]) || !slices.Contains(tableTexts(other),
			columns[2]) {
			continue
		}
		uid, err := strconv.Atoi(columns[7])
		return uid, err == nil
	}
	return 0, false
}

// tableTexts returns an IPv4 address as the tables have it, in hexadecimal digits. On machines with little-endian
// numbers, the bytes of each group of four are reversed.
func tableTexts(a netip.AddrPort) []string {
	v4, v6 := a.Addr().Unmap().As4(), netip.AddrFrom16(netip.AddrFrom4(a.Addr().Unmap().As4()).As16()).As16()
	var texts []string
	for _, raw := range [][]byte{v4[:], v6[:]} {
		reversed := slices.Clone(raw)
		for group := range slices.Chunk(reversed, 4) {
			slices.Reverse(group)
		}
		for _, b := range [][]byte{raw, reversed} {
			texts = append(texts, fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(b)), a.Port()))
		}
	}
	return texts
}
