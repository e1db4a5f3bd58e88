package http

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"

	"github.com/bunsen-os/bunsen/mcs/join"
)

// extraPath is a file that the server adds; its contents change.
const extraPath = "/etc/kubernetes/kubelet-ca.crt"

func addition(i int) mcs.Extra {
	return mcs.Extra{
		Files: []mcs.File{{Path: extraPath, Mode: 0o644, Contents: []byte("extra-" + strconv.Itoa(i))}},
		Join: &mcs.Join{
			Server: "https://api-" + strconv.Itoa(i) + ".example.com:6443",
			CA:     []byte("ca-" + strconv.Itoa(i)),
		},
	}
}

// changing is a server whose configs, additions and tokens all change while machines ask.
type changing struct {
	shelf  *mcs.Pools
	tokens *tokens
	mu     sync.Mutex
	good   join.Token // one that is good now, or was a moment ago
}

func (c *changing) renew(t *testing.T) {
	next := c.tokens.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.good
	c.good = next
	c.tokens.mu.Lock()
	defer c.tokens.mu.Unlock()
	if known := c.tokens.known[last.ID]; known != nil {
		revoked := known.DeepCopy()
		revoked.Spec.Revoked = true
		c.tokens.known[last.ID] = revoked
	}
}

func (c *changing) now() join.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.good
}

func TestMachinesNeverSeeHalfOfAChange(t *testing.T) {
	c := &changing{shelf: mcs.NewPools(), tokens: &tokens{}}
	if err := c.shelf.Set("worker", rendered("rendered-worker-0", "0")); err != nil {
		t.Fatal(err)
	}
	if err := c.shelf.SetExtra(addition(0)); err != nil {
		t.Fatal(err)
	}
	c.shelf.SetSynced()
	c.renew(t)
	h, counts := Routes(Options{
		Source: c.shelf, Tokens: c.tokens, BootstrapTokens: &minter{}, Limits: DefaultLimits(),
		Audit: io.Discard, Log: quiet, Now: atNoon,
	})
	server := httptest.NewServer(lifted(h))
	defer server.Close()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	seen := [2]map[string]bool{{}, {}}
	var mu sync.Mutex
	for i := range 8 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				config, extra, err := c.fetch(server, i+n)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[0][config], seen[1][extra] = true, true
				mu.Unlock()
			}
		})
	}
	for i := 1; i <= 40; i++ {
		if err := c.shelf.Set("worker", rendered("rendered-worker-"+strconv.Itoa(i), strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		c.renew(t)
		if err := c.shelf.SetExtra(addition(i)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	clients.Wait()
	if len(seen[0]) < 3 || len(seen[1]) < 3 || counts.Served() == 0 {
		t.Errorf("clients saw %d configs and %d additions: nothing was tested", len(seen[0]), len(seen[1]))
	}
}

// lifted gives each request an address of its own, so that one host stands for many machines.
func lifted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := strconv.Atoi(r.Header.Get("X-Machine")); err == nil {
			r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", n>>16&255, n>>8&255, n&255)
		}
		h.ServeHTTP(w, r)
	})
}

// fetch asks as the nth machine, and returns the config and the addition that it was served, which belong together.
func (c *changing) fetch(server *httptest.Server, n int) (config, extra string, err error) {
	r, err := http.NewRequest("GET", server.URL+"/config/worker", nil)
	if err != nil {
		return "", "", err
	}
	r.Header.Set("X-Machine", strconv.Itoa(n))
	r.Header.Set("Accept", accept+"3."+strconv.Itoa(n%6)+".0")
	r.Header.Set("Accept-Encoding", []string{"identity", "gzip"}[n/6%2])
	asked := c.now()
	r.Header.Set("Authorization", bearer(asked))
	response, err := server.Client().Do(r)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return "", "", err
	}
	if response.StatusCode == http.StatusForbidden && c.now() != asked {
		return "", "", nil // revoked meanwhile
	}
	if response.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("answered %d: %s", response.StatusCode, raw)
	}
	body := string(raw)
	if response.Header.Get("Content-Encoding") == "gzip" {
		if body, err = inflate(body); err != nil {
			return "", "", err
		}
	}
	return parts(body)
}

// parts tells of which config and of which addition a body is; the error, that it is of several.
func parts(body string) (config, extra string, err error) {
	var served struct {
		Storage struct {
			Files []struct {
				Path     string
				Contents struct{ Source, Compression string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &served); err != nil {
		return "", "", fmt.Errorf("a body that is not whole: %w: %s", err, body)
	}
	files := map[string]string{}
	for _, f := range served.Storage.Files {
		text, err := url.PathUnescape(strings.TrimPrefix(f.Contents.Source, "data:,"))
		if err != nil {
			return "", "", err
		}
		files[f.Path] = text
	}
	config, extra = files["/etc/a"], strings.TrimPrefix(files[extraPath], "extra-")
	for path, want := range map[string]string{
		mcs.NodeAnnotationsPath: `"rendered-worker-` + config + `"`,
		mcs.EncapsulatedPath:    `"rendered-worker-` + config + `"`,
		mcs.KubeconfigPath:      "https://api-" + extra + ".example.com:6443",
	} {
		if config == "" || extra == "" || !strings.Contains(files[path], want) {
			return "", "", fmt.Errorf("the config is %q, what was added %q, and %s has %s", config, extra, path,
				files[path])
		}
	}
	return config, extra, nil
}
