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

	"github.com/bunsen-os/bunsen/source"
)

// newSSH prepares conversations over ssh. It does not use the library's ssh transport, which reads ~/.ssh/config, may
// ask an agent, and cannot be stopped while a server keeps it waiting in the handshake.
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

// knownHosts reads known_hosts lines. The parser takes files only, so they pass through one for a moment.
func knownHosts(lines []byte, addr string) (ssh.HostKeyCallback, []string, error) {
	f, err := os.CreateTemp("", "known-hosts-")
	if err != nil {
		return nil, nil, fmt.Errorf("putting known_hosts into a file: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(lines); err != nil {
		return nil, nil, fmt.Errorf("putting known_hosts into a file: %w", err)
	}
	db, err := gitssh.NewKnownHostsDb(f.Name())
	if err != nil {
		text := strings.ReplaceAll(err.Error(), f.Name(), "known_hosts")
		return nil, nil, errors.New("reading the Secret's known_hosts: " + text)
	}
	return db.HostKeyCallback(), db.HostKeyAlgorithms(addr), nil
}

// sshWire is git-upload-pack at the other end of an ssh session.
type sshWire struct {
	client  *ssh.Client
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	said    *tail
	stop    func() bool
}

// dialSSH connects and starts git-upload-pack. Whatever hangs, hangs on the connection, and that is closed with ctx.
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
	w := &sshWire{client: ssh.NewClient(c, chans, reqs), stop: stop, said: &tail{}}
	session, err := w.client.NewSession()
	if err != nil {
		return fail(err)
	}
	w.session, session.Stderr = session, w.said
	if w.in, err = session.StdinPipe(); err != nil {
		return fail(err)
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	w.out = &capped{io.NopCloser(out), limit + overhead}
	if err := session.Start("git-upload-pack " + quote(path)); err != nil {
		return fail(err)
	}
	return w, nil
}

// quote makes one shell word, the way git does: servers run the command through a shell.
func quote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	return "'" + strings.ReplaceAll(s, `!`, `'\!'`) + "'"
}

// AdvertisedReferencesContext reads the refs that the server begins with.
func (w *sshWire) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	adv := packp.NewAdvRefs()
	err := adv.Decode(w.out)
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs), err == nil && adv.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, w.because(err)
	}
	transport.FilterUnsupportedCapabilities(adv.Capabilities)
	return adv, nil
}

// UploadPack asks for objects.
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
		return nil, w.because(err)
	}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(io.NopCloser(w.out)); err != nil {
		return nil, w.because(err)
	}
	return res, nil
}

// because adds what the server said on its error output, which explains an answer that breaks off. The command is over
// then, and all that it said is there once it is waited for; ctx ends the waiting as it ends everything else.
func (w *sshWire) because(err error) error {
	if errors.Is(err, packp.ErrEmptyInput) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		_ = w.session.Wait()
	}
	if strings.Contains(w.said.line(), "does not appear to be a git repository") {
		return transport.ErrRepositoryNotFound
	}
	if said := w.said.line(); said != "" {
		return fmt.Errorf("the server said %q: %w", said, err)
	}
	return err
}

// Close ends the conversation, politely if nothing was asked for.
func (w *sshWire) Close() error {
	w.stop()
	_, _ = w.in.Write(pktline.FlushPkt)
	_ = w.in.Close()
	return w.client.Close()
}

// tail keeps the beginning of what a server says on its error output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps what there is room for.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), 4096-len(t.text))]...)
	return len(b), nil
}

func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return source.Line(string(t.text))
}
