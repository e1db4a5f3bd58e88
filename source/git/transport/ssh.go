package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/bunsen-os/bunsen/source"
)

// newSSH returns a dialer for ssh. newSSH does not use the library's ssh transport, which reads ~/.ssh/config, may use
// an ssh agent, and cannot be cancelled during the handshake.
func newSSH(a source.Address, secret map[string][]byte, o Options) (Dialer, error) {
	config, err := sshConfig(a, secret)
	if err != nil {
		return nil, err
	}
	path := a.Path
	if strings.HasPrefix(path, "/~") {
		path = path[1:]
	}
	port := a.Port
	if port == "" {
		port = "22"
	}
	addr := net.JoinHostPort(a.Host, port)
	d := &sshDialer{addr: addr, config: config, knownHosts: secret["known_hosts"], path: path, limit: o.PackBytes +
		overhead, dial: o.Connect}
	if d.dial == nil {
		d.dial = new(net.Dialer).DialContext
	}
	return d, nil
}

// sshDialer opens sessions over ssh.
type sshDialer struct {
	addr       string
	config     *ssh.ClientConfig
	knownHosts []byte
	path       string
	limit      int64
	dial       Connect
}

// Dial connects and starts git-upload-pack. When ctx ends, the connection closes, and every blocked call returns.
func (d *sshDialer) Dial(ctx context.Context) (Session, error) {
	config := *d.config
	var err error
	if config.HostKeyCallback, config.HostKeyAlgorithms, err = knownHosts(d.knownHosts, d.addr); err != nil {
		return nil, err
	}
	return d.connect(ctx, &config)
}

func sshConfig(a source.Address, secret map[string][]byte) (*ssh.ClientConfig, error) {
	if len(secret["identity"]) == 0 {
		return nil, errors.New("ssh needs a Secret with the private key in `identity`: name one in secretRef")
	}
	if len(bytes.TrimSpace(secret["known_hosts"])) == 0 {
		return nil, errors.New("the Secret has no known_hosts, so the server could be anybody: add the output of " +
			"ssh-keyscan, checked")
	}
	signers, err := identities(secret)
	if err != nil {
		return nil, err
	}
	if _, _, err := knownHosts(secret["known_hosts"], net.JoinHostPort(a.Host, "22")); err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{User: a.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)}}, nil
}

// identityKeys are the keys of a Secret whose values are private keys, in the order in which the client offers them to
// the server. There are only a few, because OpenSSH's server closes a connection after six attempts.
func identityKeys() []string {
	return []string{"identity", "identity.2", "identity.3", "identity.4", "identity.5"}
}

// identities returns the private keys of a Secret. The value of the key password is the passphrase of each encrypted
// private key.
func identities(secret map[string][]byte) ([]ssh.Signer, error) {
	var out []ssh.Signer
	for _, key := range identityKeys() {
		raw, ok := secret[key]
		if !ok {
			continue
		}
		signer, err := ssh.ParsePrivateKey(raw)
		var encrypted *ssh.PassphraseMissingError
		if errors.As(err, &encrypted) {
			if len(secret["password"]) == 0 {
				return nil, fmt.Errorf("the Secret's %s is encrypted: add its passphrase as password", key)
			}
			signer, err = ssh.ParsePrivateKeyWithPassphrase(raw, secret["password"])
		}
		if errors.Is(err, x509.IncorrectPasswordError) {
			return nil, fmt.Errorf("reading the Secret's %s: the passphrase in password is another one: correct it",
				key)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the Secret's %s: it is not a whole private key: write the file that "+
				"ssh-keygen created, not the one that ends in .pub", key)
		}
		out = append(out, signer)
	}
	return out, nil
}

// knownHosts reads known_hosts lines. The parser reads only files, so knownHosts writes the lines to a temporary file.
func knownHosts(lines []byte, addr string) (ssh.HostKeyCallback, []string, error) {
	f, err := os.CreateTemp("", "known-hosts-")
	if err != nil {
		return nil, nil, fmt.Errorf("writing known_hosts to a temporary file: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(lines); err != nil {
		return nil, nil, fmt.Errorf("writing known_hosts to a temporary file: %w", err)
	}
	db, err := gitssh.NewKnownHostsDb(f.Name())
	if err != nil {
		text := strings.ReplaceAll(err.Error(), f.Name(), "known_hosts")
		return nil, nil, fmt.Errorf("reading the Secret's known_hosts: %s. Write lines of the form that "+
			"ssh-keyscan prints", text)
	}
	return withFingerprints(db.HostKeyCallback()), db.HostKeyAlgorithms(addr), nil
}

// withFingerprints adds the fingerprints of the host's keys to the error of a failed check of the host key.
func withFingerprints(check ssh.HostKeyCallback) ssh.HostKeyCallback {
	return func(hostname string, remote net.Addr, key ssh.PublicKey) error {
		err := check(hostname, remote, key)
		var unknown *knownhosts.KeyError
		if !errors.As(err, &unknown) {
			return err
		}
		text := "the server has " + describeKey(key)
		for i, want := range unknown.Want {
			text += map[bool]string{true: "; known_hosts has ", false: ", "}[i == 0] + describeKey(want.Key)
		}
		return fmt.Errorf("%s: %w", text, err)
	}
}

// describeKey names a host key as ssh-keygen -l does.
func describeKey(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

// The errors of commands that are not git-upload-pack. These errors contain no part of the command's output.
var (
	ErrText  = errors.New("the output is not one of git-upload-pack")
	ErrEnded = errors.New("the command ended")
)

// sshSession is git-upload-pack at the other end of an ssh session.
type sshSession struct {
	client  *ssh.Client
	session *ssh.Session
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *output
	stop    func() bool
}

func (d *sshDialer) connect(ctx context.Context, config *ssh.ClientConfig) (Session, error) {
	conn, err := d.dial(ctx, "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s, err := d.start(conn, config)
	if err != nil {
		stop()
		conn.Close()
		return nil, err
	}
	s.stop = stop
	return s, nil
}

// maxHandshake is how many bytes a server may send before and during the login, such as a banner.
const maxHandshake = 1 << 20

// errHandshake is the error for a server that sends more.
var errHandshake = fmt.Errorf("the server sends more than %d KiB before the login: shorten its banner",
	maxHandshake>>10)

// limitedConn is a connection that ends with an error when the server has sent too much.
type limitedConn struct {
	net.Conn
	left    atomic.Int64
	tooMuch atomic.Pointer[error]
}

// allow lets the server send some more bytes.
func (c *limitedConn) allow(bytes int64, tooMuch error) {
	c.tooMuch.Store(&tooMuch)
	c.left.Store(bytes)
}

// Read reads up to the limit.
func (c *limitedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.left.Add(-int64(n)) < 0 {
		return 0, *c.tooMuch.Load()
	}
	return n, err
}

// start authenticates and starts git-upload-pack.
func (d *sshDialer) start(raw net.Conn, config *ssh.ClientConfig) (*sshSession, error) {
	conn := &limitedConn{Conn: raw}
	conn.allow(maxHandshake, errHandshake)
	c, chans, reqs, err := ssh.NewClientConn(conn, d.addr, config)
	if err != nil {
		return nil, err
	}
	conn.allow(d.limit+d.limit/8, ErrTooLarge) // the framing of ssh, and the error output
	s := &sshSession{client: ssh.NewClient(c, chans, reqs), stderr: &output{}}
	if s.session, err = s.client.NewSession(); err != nil {
		return nil, err
	}
	s.session.Stderr = s.stderr
	if s.in, err = s.session.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReaderSize(&limitedReader{io.NopCloser(out), d.limit}, 1<<16)
	// A server that does not accept the variable answers in version 0.
	_ = s.session.Setenv("GIT_PROTOCOL", version2)
	return s, s.session.Start("git-upload-pack " + quote(d.path))
}

// quote returns a path as one shell word, as git does: servers run the command in a shell.
func quote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	return "'" + strings.ReplaceAll(s, `!`, `'\!'`) + "'"
}

// Advertisement returns the output of the server. The caller reads the first message from the session.
func (s *sshSession) Advertisement() io.Reader { return s.out }

// Request sends a request. The response is the next part of the server's output.
func (s *sshSession) Request(_ context.Context, body []byte) (io.ReadCloser, error) {
	if _, err := s.in.Write(body); err != nil {
		return nil, s.Explain(err)
	}
	return io.NopCloser(s.out), nil
}

// Explain adds the server's error output, which explains an incomplete response. The command has already ended, so
// Explain waits for the rest of the output, until the context ends.
func (s *sshSession) Explain(err error) error {
	if errors.Is(err, packp.ErrEmptyInput) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		var status *ssh.ExitError
		if end := s.session.Wait(); errors.Is(err, packp.ErrEmptyInput) && (end == nil || errors.As(end, &status)) {
			err = ErrEnded
		}
	}
	if errors.Is(err, ErrInvalid) || errors.Is(err, pktline.ErrInvalidPktLen) {
		err = ErrText
	}
	switch text := s.stderr.line(); {
	case strings.Contains(text, "does not appear to be a git repository"):
		return transport.ErrRepositoryNotFound
	case text != "":
		return fmt.Errorf("the server said %q: %w", text, err)
	}
	return err
}

// Close ends the session. Close sends a flush packet first, as git does when it requests nothing.
func (s *sshSession) Close() error {
	s.stop()
	_, _ = s.in.Write(pktline.FlushPkt)
	_ = s.in.Close()
	return s.client.Close()
}

// output keeps the beginning of a server's error output.
type output struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps the bytes that fit.
func (t *output) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), 4096-len(t.text))]...)
	return len(b), nil
}

func (t *output) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return source.Line(string(t.text))
}
