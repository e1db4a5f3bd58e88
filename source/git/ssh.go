package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/bunsen-os/bunsen/source"
)

// newSSH returns a function that opens sessions over ssh. It does not use the library's ssh transport, which reads
// ~/.ssh/config, may use an ssh agent, and cannot be cancelled during the handshake.
func newSSH(a source.Address, secret map[string][]byte, limit int64) (func(context.Context) (wire, error), error) {
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
	return func(ctx context.Context) (wire, error) {
		config := *config
		if config.HostKeyCallback, config.HostKeyAlgorithms, err = knownHosts(secret["known_hosts"], addr); err != nil {
			return nil, err
		}
		return dialSSH(ctx, addr, &config, path, limit)
	}, nil
}

func sshConfig(a source.Address, secret map[string][]byte) (*ssh.ClientConfig, error) {
	if len(secret["identity"]) == 0 {
		return nil, errors.New("ssh needs a Secret with the private key in `identity`: name one in secretRef")
	}
	if len(bytes.TrimSpace(secret["known_hosts"])) == 0 {
		return nil, errors.New("the Secret has no known_hosts, so the server could be anybody: add the output of ssh-keyscan, checked")
	}
	signer, err := ssh.ParsePrivateKey(secret["identity"])
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		if len(secret["password"]) == 0 {
			return nil, errors.New("the Secret's identity is encrypted: add its passphrase as password")
		}
		signer, err = ssh.ParsePrivateKeyWithPassphrase(secret["identity"], secret["password"])
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Secret's identity: %w", err)
	}
	if _, _, err := knownHosts(secret["known_hosts"], net.JoinHostPort(a.Host, "22")); err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{User: a.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}}, nil
}

// knownHosts reads known_hosts lines. The parser reads files only, so it writes the lines to a temporary file.
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
		return nil, nil, errors.New("reading the Secret's known_hosts: " + text)
	}
	return withFingerprints(db.HostKeyCallback()), db.HostKeyAlgorithms(addr), nil
}

// withFingerprints adds the fingerprints of the keys to the error of a check.
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

// sshWire is git-upload-pack at the other end of an ssh session.
type sshWire struct {
	client  *ssh.Client
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	stderr  *output
	stop    func() bool
}

// dialSSH connects and starts git-upload-pack. The end of ctx closes the connection, which ends every blocked call.
func dialSSH(ctx context.Context, addr string, config *ssh.ClientConfig, path string, limit int64) (wire, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	fail := func(err error) (wire, error) {
		stop()
		conn.Close()
		return nil, err
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, addr, config)
	if err != nil {
		return fail(err)
	}
	w := &sshWire{client: ssh.NewClient(c, chans, reqs), stop: stop, stderr: &output{}}
	session, err := w.client.NewSession()
	if err != nil {
		return fail(err)
	}
	w.session, session.Stderr = session, w.stderr
	if w.in, err = session.StdinPipe(); err != nil {
		return fail(err)
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	w.out = &limitedReader{io.NopCloser(out), limit + overhead}
	if err := session.Start("git-upload-pack " + quote(path)); err != nil {
		return fail(err)
	}
	return w, nil
}

// quote returns a path as one shell word, as git does: servers run the command in a shell.
func quote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	return "'" + strings.ReplaceAll(s, `!`, `'\!'`) + "'"
}

// AdvertisedReferencesContext reads the refs that the server sends first.
func (w *sshWire) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	adv := packp.NewAdvRefs()
	err := adv.Decode(w.out)
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs), err == nil && adv.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, w.withStderr(err)
	}
	transport.FilterUnsupportedCapabilities(adv.Capabilities)
	return adv, nil
}

// UploadPack requests objects.
func (w *sshWire) UploadPack(_ context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	out := bufio.NewWriter(w.in)
	if err := req.UploadRequest.Encode(out); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(out).EncodeString("done\n"); err != nil {
		return nil, err
	}
	if err := out.Flush(); err != nil {
		return nil, w.withStderr(err)
	}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(io.NopCloser(w.out)); err != nil {
		return nil, w.withStderr(err)
	}
	return res, nil
}

// withStderr adds the server's error output, which explains an incomplete response. The command has already ended, so
// withStderr waits for the rest of the output. The end of ctx ends the wait.
func (w *sshWire) withStderr(err error) error {
	if errors.Is(err, packp.ErrEmptyInput) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		_ = w.session.Wait()
	}
	switch text := w.stderr.line(); {
	case strings.Contains(text, "does not appear to be a git repository"):
		return transport.ErrRepositoryNotFound
	case text != "":
		return fmt.Errorf("the server said %q: %w", text, err)
	}
	return err
}

// Close ends the session. It sends a flush packet first, as git does when it requests nothing.
func (w *sshWire) Close() error {
	w.stop()
	_, _ = w.in.Write(pktline.FlushPkt)
	_ = w.in.Close()
	return w.client.Close()
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
