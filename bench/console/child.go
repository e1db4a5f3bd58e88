package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// console is `bunsen console` as a process.
type console struct {
	cmd *exec.Cmd
	// host is its address, and log the file with its output.
	host, log string
}

// startConsole starts the console and waits until it answers.
func startConsole(ctx context.Context, o options, dir string, api *rest.Config) (*console, error) {
	if o.bunsen == "" {
		o.bunsen = filepath.Join(dir, "bunsen")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.bunsen, "./cmd/bunsen")
		build.Dir = o.files.Root
		if text, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building bunsen: %w\n%s", err, text)
		}
	}
	kubeconfig := filepath.Join(dir, "console.kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"bench": {Server: api.Host, CertificateAuthorityData: api.CAData}},
		Contexts: map[string]*clientcmdapi.Context{"bench": {Cluster: "bench"}}, CurrentContext: "bench",
	}, kubeconfig); err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &console{host: free.Addr().String(), log: filepath.Join(dir, "console.log")}
	if err := free.Close(); err != nil {
		return nil, err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own copy
	c.cmd = exec.Command(o.bunsen, "console", "--kubeconfig", kubeconfig, "--listen", c.host, "--host", c.host)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the console: %w", err)
	}
	for end := time.Now().Add(o.limit); ; {
		conn, err := net.Dial("tcp4", c.host)
		if err == nil {
			return c, conn.Close()
		}
		if time.Now().After(end) {
			c.stop()
			return nil, fmt.Errorf("waiting for the console: %w\n%s", err, c.tail())
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			c.stop()
			return nil, err
		}
	}
}

// stop ends the process and waits for its end.
func (c *console) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended already
	_ = c.cmd.Wait()
}

// tail returns the end of the output, for errors.
func (c *console) tail() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// usage returns the CPU time so far, the current memory, and the peak of memory since the last call.
func (c *console) usage() (measure.Usage, error) {
	u, err := measure.UsageOf(c.cmd.Process.Pid)
	if err != nil {
		return u, err
	}
	return u, measure.Forget(c.cmd.Process.Pid)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// browser is the session of one user.
type browser struct {
	client *http.Client
	base   string
}

// signIn opens a session with a token.
func (c *console) signIn(ctx context.Context, token string) (*browser, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	b := &browser{base: "https://" + c.host, client: &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
			MaxIdleConnsPerHost: 1,
		}, //nolint:gosec // loopback
	}}
	form := strings.NewReader(url.Values{"token": {token}, "next": {"/"}}.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+"/sign-in", form)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", b.base)
	answer, err := b.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("signing in: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusSeeOther {
		text, _ := io.ReadAll(answer.Body)
		return nil, fmt.Errorf("signing in: %s %s", answer.Status, text)
	}
	return b, nil
}

// get sends a request. The caller closes the body.
func (b *browser) get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := b.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // it was only read
		return nil, fmt.Errorf("reading %s: %s %s", path, answer.Status, text)
	}
	return answer, nil
}
