package transport

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Capabilities are what a server announces at the beginning of a session in version 2.
type Capabilities struct {
	fetch  []string
	format string
}

// Filters reports whether the server can leave out objects by a filter.
func (c Capabilities) Filters() bool { return slices.Contains(c.fetch, "filter") }

// Shallow reports whether the server can send commits without their history.
func (c Capabilities) Shallow() bool { return slices.Contains(c.fetch, "shallow") }

// ObjectFormat returns the hash function of the repository: sha1 or sha256.
func (c Capabilities) ObjectFormat() string { return c.format }

// IsVersion2 reports whether a server answers in version 2. IsVersion2 reads ahead, so the caller reads the rest of the
// message from the returned reader, whatever the version is. A server that does not know version 2 ignores the request
// for it.
func IsVersion2(r io.Reader) (bool, io.Reader, error) {
	buffered := bufio.NewReaderSize(r, maxPacket)
	const first, service = "000eversion 2\n", "001e# service=git-upload-pack\n0000"
	head, err := buffered.Peek(len(first))
	if err != nil {
		return false, buffered, nil // The function that reads version 0 returns a better error.
	}
	if string(head) == first {
		return true, buffered, nil
	}
	// Some servers send the first line of version 0 before the line of version 2.
	long, err := buffered.Peek(len(service) + len(first))
	if err != nil || string(long) != service+first {
		return false, buffered, nil
	}
	if _, err := buffered.Discard(len(service)); err != nil {
		return false, buffered, err
	}
	return true, buffered, nil
}

// maxCapabilities is the most bytes of capabilities. Those of real servers have less than 1 KiB.
const maxCapabilities = 64 << 10

// errCapabilities is the error for more capabilities.
var errCapabilities = fmt.Errorf("the server sends more than %d KiB of capabilities", maxCapabilities>>10)

// ReadCapabilities reads the first message of a server in version 2.
func ReadCapabilities(r io.Reader) (Capabilities, error) {
	p := newPackets(r)
	c := Capabilities{format: "sha1"}
	switch _, text, err := p.line(); {
	case err != nil:
		return c, fmt.Errorf("reading the version of the protocol: %w", unexpected(err))
	case text != "version 2":
		return c, p.expected("version 2")
	}
	for left := maxCapabilities; ; {
		k, text, err := p.line()
		if err != nil {
			return c, unexpected(err)
		}
		if k != data {
			return c, nil
		}
		if left -= len(text); left < 0 {
			return c, errCapabilities
		}
		switch name, value, _ := strings.Cut(text, "="); name {
		case "fetch":
			c.fetch = strings.Fields(value)
		case "object-format":
			c.format = value
		}
	}
}
