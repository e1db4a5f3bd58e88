package ignition

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/godbus/dbus/v5"
)

// serveSystemd answers on the socket by which programs reach systemd itself. Ignition asks it for its version where a
// config enables an instance of a template; nothing else is answered with anything else.
func serveSystemd(socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	return nil
}

// answer speaks to one client until it leaves.
func answer(c net.Conn) {
	defer c.Close() //nolint:errcheck // only answered
	r := bufio.NewReader(c)
	if !welcome(c, r) {
		return
	}
	for serial := uint32(1); ; serial++ {
		call, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		version := dbus.MakeVariant("252.39")
		reply := dbus.Message{
			Type: dbus.TypeMethodReply, Body: []any{version},
			Headers: map[dbus.HeaderField]dbus.Variant{
				dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
				dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(version)),
			},
		}
		if err := reply.EncodeTo(numbered{c, serial}, binary.LittleEndian); err != nil {
			return
		}
	}
}

// welcome lets a client authenticate; every client is welcome.
func welcome(c net.Conn, r *bufio.Reader) bool {
	if _, err := r.ReadByte(); err != nil { // a NUL comes first
		return false
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		said := "ERROR"
		switch line = strings.TrimSpace(line); {
		case line == "AUTH":
			said = "REJECTED EXTERNAL"
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			said = "OK 0123456789abcdef0123456789abcdef"
		case line == "NEGOTIATE_UNIX_FD":
			said = "AGREE_UNIX_FD"
		case line == "BEGIN":
			return true
		}
		if _, err := fmt.Fprint(c, said+"\r\n"); err != nil {
			return false
		}
	}
}

// numbered puts a serial into the message that is written: the library keeps it to itself.
type numbered struct {
	net.Conn
	serial uint32
}

// Write implements io.Writer. The message comes in one piece; its serial stands at the ninth byte.
func (n numbered) Write(message []byte) (int, error) {
	if len(message) >= 12 {
		binary.LittleEndian.PutUint32(message[8:12], n.serial)
	}
	return n.Conn.Write(message)
}
