package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/test/ports"
)

// kubeconfig points at a server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: {}}]\n",
		server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// start runs the command as main does.
func start(ctx context.Context, args ...string) error {
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&bytes.Buffer{})
	return cmd.ExecuteContext(ctx)
}

// TestWhatStopsItAtTheStart: each mistake is told with its flag.
func TestWhatStopsItAtTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for sentence, tc := range map[string]struct {
		args []string
		want string
	}{
		"a kubeconfig that is not there":               {[]string{"--kubeconfig", "/nowhere"}, `reading kubeconfig "/nowhere": `},
		"no cluster at all":                            {nil, "outside of a pod, name a cluster with --kubeconfig"},
		"a store that is no directory":                 {[]string{"--kubeconfig", kubeconfig(t, "http://127.0.0.1:1"), "--store", file}, "opening the store of trees (--store): "},
		"an argument, where there are only flags":      {[]string{"start"}, `unknown command "start"`},
		"an image without a digest":                    {[]string{"--os-image", "quay.io/example/os:1"}, "--os-image: \"quay.io/example/os:1\" names no digest"},
		"a flag that does not exist":                   {[]string{"--nope"}, "unknown flag: --nope"},
		"an address for /healthz that cannot be taken": {[]string{"--kubeconfig", kubeconfig(t, "http://127.0.0.1:1"), "--health", "nonsense"}, "nonsense"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			if err := start(t.Context(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestHealth: a process whose cluster does not answer is alive, so that nothing restarts it, and is not ready.
func TestHealth(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	cluster := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		select { // until the test ends
		case <-req.Context().Done():
		case <-ctx.Done():
		}
	}))
	address, err := ports.Address()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- start(ctx, "--kubeconfig", kubeconfig(t, cluster.URL), "--store", t.TempDir(), "--health", address)
	}()
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusInternalServerError} {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 2*time.Minute, true,
			func(context.Context) (bool, error) {
				answer, err := http.Get("http://" + address + path)
				if last = err; err != nil {
					return false, nil
				}
				last = fmt.Errorf("status %s", answer.Status)
				return answer.StatusCode == want, answer.Body.Close()
			})
		if err != nil {
			t.Errorf("%s: %v", path, last)
		}
	}
	stop()
	cluster.CloseClientConnections()
	<-ended // with an error or not: there is no cluster
}

// TestTheClientIsNotSlow: client-go's own limit of 5 requests a second is lifted.
func TestTheClientIsNotSlow(t *testing.T) {
	rc, err := restConfig(kubeconfig(t, "http://127.0.0.1:1"))
	if err != nil || rc.QPS < 50 {
		t.Errorf("%v requests a second, %v", rc.QPS, err)
	}
}

// TestRepositoriesAreOpenedBySpec: a URL that nothing can follow is refused before anything is tried.
func TestRepositoriesAreOpenedBySpec(t *testing.T) {
	open, trees, err := opener(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer trees.Close()
	for url, ok := range map[string]bool{
		"https://git.example.com/os": true, "git@git.example.com:os": false,
		"ftp://git.example.com/os": false, "relative/path": false,
	} {
		if _, err := open(v1alpha1.GitSourceSpec{URL: url}, source.Secrets{}); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}
