package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
)

const (
	// largestConfig is the maximum size of a config with the files in it.
	largestConfig = 32 << 20
	// mostRedirects limits the redirects of a server.
	mostRedirects = 5
	// wantsIgnition is the HTTP header that requests the newest Ignition version that the daemon can read.
	wantsIgnition = "application/vnd.coreos.ignition+json;version=3.5.0, application/yaml;q=0.9, " +
		"application/json;q=0.9, */*;q=0.1"
)

// source says where the daemon reads a config, and which conditions the config must meet.
type source struct {
	from, ca, digest string
	timeout          time.Duration
}

func (s *source) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.from, "once-from", "", "file or http(s) URL of the config: Ignition 3.0 to 3.5, or a "+
		"MachineConfig in YAML or JSON")
	f.StringVar(&s.ca, "ca", "", "file of PEM certificates of the CAs that the daemon trusts for the URL's server, "+
		"instead of the system's CAs")
	f.StringVar(&s.digest, "digest", "", "expected digest of the config's bytes, as sha256:<hex>")
	f.DurationVar(&s.timeout, "timeout", 30*time.Second, "how long the download of the config may take")
}

// read returns the config's bytes, and a name for it without a password.
func (s *source) read(ctx context.Context) (name string, text []byte, err error) {
	want, ok := strings.CutPrefix(s.digest, "sha256:")
	if s.digest != "" && (!ok || len(want) != len(host.DigestOf(nil))) {
		return "", nil, &usageError{Err: fmt.Errorf("--digest %q is not sha256:<64 hex digits>", s.digest)}
	}
	if strings.HasPrefix(s.from, "http://") || strings.HasPrefix(s.from, "https://") {
		name, text, err = s.download(ctx)
	} else {
		name, text, err = s.open()
	}
	if err != nil {
		return "", nil, err
	}
	if is := string(host.DigestOf(text)); s.digest != "" && is != strings.ToLower(want) {
		return "", nil, fmt.Errorf("reading %s: its digest is sha256:%s, not %s: the file has changed, or --digest "+
			"is that of another version", name, is, s.digest)
	}
	return name, text, nil
}

func (s *source) open() (string, []byte, error) {
	f, err := os.Open(s.from)
	if err != nil {
		return "", nil, fmt.Errorf("reading the config: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := limited(f)
	if err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", s.from, err)
	}
	return s.from, text, nil
}

func (s *source) download(ctx context.Context) (string, []byte, error) {
	at, err := url.Parse(s.from)
	if err != nil || at.Host == "" {
		// The error must not contain the URL, because the URL may contain a password.
		return "", nil, &usageError{Err: errors.New("--once-from is no URL that can be read")}
	}
	name := (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
	client, err := s.client()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", name, err)
	}
	request.Header.Set("Accept", wantsIgnition)
	request.Header.Set("User-Agent", "machine-config-daemon/"+versionText())
	answer, err := client.Do(request)
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // The inner error does not contain the URL.
	}
	if err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", name, err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("reading %s: the server answered %s", name, answer.Status)
	}
	if endless(answer) && s.digest == "" {
		return "", nil, fmt.Errorf("reading %s: the answer has no Content-Length, so the daemon cannot notice a "+
			"truncated config; add --digest, or let the server send the length", name)
	}
	text, err := limited(answer.Body)
	if err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return name, text, nil
}

// endless reports whether a response has no length. The end of such a response is the end of the connection, which may
// also be a failure.
func endless(answer *http.Response) bool {
	return answer.ProtoMajor < 2 && answer.ContentLength < 0 && len(answer.TransferEncoding) == 0 &&
		!answer.Uncompressed
}

// client returns an HTTP client. The client trusts the CA in the flags, and follows no redirect from TLS to plain HTTP.
func (s *source) client() (*http.Client, error) {
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, fmt.Errorf("reading --ca: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading --ca %s: there is no PEM certificate in it", s.ca)
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		to.Header.Del("Referer") // The Referer may contain a query with a key.
		if len(via) > mostRedirects {
			return fmt.Errorf("the server redirects more than %d times", mostRedirects)
		}
		if via[0].URL.Scheme == "https" && to.URL.Scheme != "https" {
			return errors.New("the server redirects to an address without TLS")
		}
		return nil
	}}, nil
}

// limited reads a whole response, and returns an error if it is longer than a limit.
func limited(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, largestConfig+1))
	if err == nil && len(text) > largestConfig {
		err = fmt.Errorf("it is longer than %d MiB, which no config is", largestConfig>>20)
	}
	return text, err
}

// storedIn reads files of the content store from a directory, in which each file has its hash as its name. It returns
// nil for an empty name. The hash of what it reads is verified as that of a download is.
func storedIn(dir string) fetch.Stored {
	if dir == "" {
		return nil
	}
	return func(_ context.Context, hash string, _ map[string]string) (fetch.Answer, io.ReadCloser, error) {
		f, err := os.Open(filepath.Join(dir, hash))
		if err != nil {
			return fetch.Answer{}, nil, fmt.Errorf("reading --content (`bunsen build --content` writes it): %w", err)
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("reading --content: %s is not a regular file", f.Name())
		}
		if err != nil {
			f.Close() //nolint:errcheck,gosec // only read
			return fetch.Answer{}, nil, err
		}
		return fetch.Answer{Status: http.StatusOK, Length: info.Size()}, f, nil
	}
}
