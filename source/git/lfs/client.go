package lfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/credentials"
	"github.com/bunsen-os/bunsen/source/git/lfs/batch"
	"github.com/bunsen-os/bunsen/source/git/transport"
)

// Config names a repository with Git LFS.
type Config struct {
	// Address of the repository.
	Address source.Address
	// Secret is the data of the Secret with the credentials for https, or nil.
	Secret map[string][]byte
	// Connect opens connections, for example through a proxy. If Connect is nil, connections are direct, or through the
	// proxy of the environment.
	Connect transport.Connect
}

// Client reads objects of Git LFS. Client is safe for concurrent use, and has no open connection while no method runs.
type Client struct {
	config Config
	at     string // the address of the repository, without credentials
	login  interface{ SetAuth(*http.Request) }
}

// New checks the configuration. New opens no connection. Errors are Stalled faults: InvalidSpec for an address without
// https, AuthenticationFailed for the Secret.
func New(c Config) (*Client, error) {
	if c.Address.Scheme != "https" {
		return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec, fmt.Errorf(
			"spec.include has LFS, which the controller reads over https only: write https:// into the URL, or "+
				"remove LFS from spec.include (now: %s)", c.Address))
	}
	client := &Client{config: c, at: c.Address.String()}
	login, err := transport.Login(c.Address, c.Secret)
	if err == nil {
		_, err = credentials.TLS(c.Secret)
	}
	if err != nil {
		return nil, fault.NewStalled(v1alpha1.ReasonAuthentication, err)
	}
	if login != nil {
		client.login = login
	}
	return client, nil
}

// fetch reads the objects of pointers, and calls use with each object. The pointers must have different OIDs. Errors
// are faults, except those of use.
func (c *Client) fetch(ctx context.Context, wanted []batch.Pointer, use func(batch.Pointer, []byte) error) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	defer s.close()
	for len(wanted) > 0 {
		n := min(len(wanted), batch.MaxObjects)
		places, err := s.places(ctx, wanted[:n])
		if err != nil {
			return c.explain(ctx, "", err)
		}
		for _, p := range wanted[:n] {
			data, err := s.download(ctx, p, places[p.Hex()])
			if err != nil {
				return c.explain(ctx, "object "+p.Hex()+": ", err)
			}
			if err := use(p, data); err != nil {
				return err
			}
		}
		wanted = wanted[n:]
	}
	return nil
}

// places requests the addresses of objects.
func (s *session) places(ctx context.Context, wanted []batch.Pointer) (map[string]batch.Place, error) {
	body, err := batch.Request(wanted)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, batch.Address(s.at), bytes.NewReader(body))
	if err != nil {
		return nil, errAddress
	}
	r.Header.Set("Accept", batch.MediaType)
	r.Header.Set("Content-Type", batch.MediaType)
	s.authorize(r)
	res, err := s.own.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refusalOf(res)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, batch.MaxAnswerBytes+1))
	if err != nil {
		return nil, errEnded
	}
	if len(answer) > batch.MaxAnswerBytes {
		return nil, fmt.Errorf("%w: the answer has more than %d bytes", errAnswer, batch.MaxAnswerBytes)
	}
	places, err := batch.ParseAnswer(answer, wanted)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	return places, nil
}

// authorize adds the credentials to a request to the host of the repository, unless the request has credentials
// already.
func (s *session) authorize(r *http.Request) {
	if s.login != nil && s.isOwn(r.URL) && r.Header.Get("Authorization") == "" {
		s.login.SetAuth(r)
	}
}

// isOwn reports whether an address has the host and the port of the repository.
func (c *Client) isOwn(u *url.URL) bool {
	return u.Scheme == "https" && strings.EqualFold(u.Hostname(), c.config.Address.Host) &&
		portOf(u.Port()) == portOf(c.config.Address.Port)
}

func portOf(port string) string {
	if port == "" {
		return "443"
	}
	return port
}

const maxRedirects = 3

// download reads the content of an object. download follows redirects to https. After a redirect, the request has
// neither the credentials nor the headers of the server, unless the host is the same.
func (s *session) download(ctx context.Context, p batch.Pointer, at batch.Place) ([]byte, error) {
	same := true
	for range maxRedirects + 1 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL.String(), nil)
		if err != nil {
			return nil, errAddress
		}
		if same {
			for name, value := range at.Header {
				r.Header.Set(name, value)
			}
			s.authorize(r)
		}
		res, err := s.do(r)
		if err != nil {
			return nil, err
		}
		if !isRedirect(res.StatusCode) {
			return contentOf(res, p)
		}
		next, err := nextOf(res)
		if err != nil {
			return nil, err
		}
		same = same && strings.EqualFold(next.Host, at.URL.Host)
		at.URL = next
	}
	return nil, errRedirect
}

// nextOf returns the address to which a redirect leads, and closes the answer.
func nextOf(res *http.Response) (*url.URL, error) {
	_ = res.Body.Close()
	next, err := res.Location()
	if err != nil {
		return nil, errRedirect
	}
	if next, err = batch.ParseURL(next.String()); err != nil {
		return nil, errRedirect
	}
	return next, nil
}

// contentOf reads an answer and closes it. The answer must be the content that the pointer names.
func contentOf(res *http.Response, p batch.Pointer) ([]byte, error) {
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refusalOf(res)
	}
	if res.ContentLength > p.Size {
		return nil, errContent
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, p.Size+1))
	if err != nil {
		return nil, errEnded
	}
	if !p.Holds(data) {
		return nil, errContent
	}
	return data, nil
}

var (
	errAddress = errors.New("the address is invalid")
	errAnswer  = errors.New("the answer of the batch API")
	errContent = errors.New("the server sends another content than the pointer names: repair the storage of the " +
		"server, or push the object again")
	errEnded    = errors.New("the server ended the connection in the middle of an answer; the controller tries again")
	errRedirect = errors.New("the server redirects to an address that the controller does not follow")
)
