package content_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	ocistore "github.com/google/go-containerregistry/pkg/registry"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"oras.land/oras-go/v2/registry/remote/auth"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/source/oci"
)

// world is a real registry behind TLS and a password, and the MachineConfigs of a cluster.
type world struct {
	*testing.T
	*httptest.Server
	inner http.Handler
	// fail answers requests with a status; nil: none.
	fail    func(*http.Request) int
	offset  time.Duration
	configs []*mcfgv1.MachineConfig
	// pushed has the requests that changed the registry.
	pushed []string
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, inner: ocistore.New(ocistore.Logger(log.New(io.Discard, "", 0)))}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		status := 0
		if w.fail != nil {
			status = w.fail(r)
		}
		user, password, _ := r.BasicAuth()
		switch {
		case status != 0:
			http.Error(out, "geheim", status)
		case user != "robot" || password != "geheim":
			out.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			out.WriteHeader(http.StatusUnauthorized)
		default:
			if r.Method == http.MethodPut || r.Method == http.MethodDelete {
				w.pushed = append(w.pushed, r.Method+" "+r.URL.Path)
			}
			w.inner.ServeHTTP(out, r)
		}
	}))
	w.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.StartTLS()
	t.Cleanup(w.Close)
	return w
}

// store returns the store of a controller that has just become the leader.
func (w *world) store() *content.Store {
	w.Helper()
	repository, err := oci.NewContents(strings.TrimPrefix(w.URL, "https://")+"/bunsen/content",
		func(context.Context, string) (auth.Credential, error) {
			return auth.Credential{Username: "robot", Password: "geheim"}, nil
		}, w.Server.Client().Transport)
	w.must(err)
	scheme := runtime.NewScheme()
	w.must(mcfgv1.Install(scheme))
	client := fake.NewClientBuilder().WithScheme(scheme)
	for _, mc := range w.configs {
		client = client.WithObjects(mc)
	}
	return &content.Store{
		Registry: repository, Client: client.Build(), Now: func() time.Time { return time.Now().Add(w.offset) },
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// has fails unless the registry has the file, as a server reads it.
func (w *world) has(f machineconfig.LargeFile, want bool) {
	w.Helper()
	get := func(path string) (int, []byte) {
		out := httptest.NewRecorder()
		w.inner.ServeHTTP(out, httptest.NewRequest(http.MethodGet, path, nil))
		return out.Code, out.Body.Bytes()
	}
	status, manifest := get("/v2/bunsen/content/manifests/" + machineconfig.ContentTag(f.Hash))
	if status == http.StatusOK { // This registry keeps the tag of a deleted manifest.
		status, manifest = get(fmt.Sprintf("/v2/bunsen/content/manifests/sha256:%x", sha256.Sum256(manifest)))
	}
	if (status == http.StatusOK) != want {
		w.Errorf("the manifest: %d, want it %v", status, want)
	}
	if !want || status != http.StatusOK {
		return
	}
	var is struct{ Layers []struct{ Digest string } }
	if err := json.Unmarshal(manifest, &is); err != nil || len(is.Layers) != 1 {
		w.Fatalf("the manifest %s: %v", manifest, err)
	}
	from, err := f.Open()
	w.must(err)
	data, err := io.ReadAll(from)
	w.must(err)
	if status, got := get("/v2/bunsen/content/blobs/" + is.Layers[0].Digest); !bytes.Equal(got, data) {
		w.Errorf("%d with %d of %d bytes", status, len(got), len(data))
	}
}

func fileOf(seed int64, n int) machineconfig.LargeFile {
	data := make([]byte, n)
	rand.New(rand.NewSource(seed)).Read(data)
	sum := sha512.Sum512(data)
	return machineconfig.LargeFile{
		Path: "/opt/big", Hash: "sha512-" + hex.EncodeToString(sum[:]), Size: int64(n),
		Name: "big", FS: fstest.MapFS{"big": {Data: data}},
	}
}

func TestAFileIsPushedOnceAndKeptWhileAConfigNamesIt(t *testing.T) {
	w, f, other := start(t), fileOf(1, 600_000), fileOf(2, 10)
	s := w.store()
	for range 3 {
		w.must(s.Write(t.Context(), []machineconfig.LargeFile{f, other}))
	}
	w.must(w.store().Write(t.Context(), []machineconfig.LargeFile{f})) // another leader
	manifests := slices.DeleteFunc(slices.Clone(w.pushed), func(r string) bool {
		return !strings.Contains(r, "manifests")
	})
	if len(manifests) != 2 {
		t.Errorf("the registry got %q", w.pushed)
	}
	w.has(f, true)
	named := map[string]bool{f.Hash: true}
	for range 2 {
		w.must(s.Collect(t.Context(), named))
		w.has(f, true)
		w.has(other, w.offset == 0)
		w.offset += 2 * time.Hour
	}
	// A config names it again before the sweep, and then none for an hour.
	w.must(s.Write(t.Context(), []machineconfig.LargeFile{f}))
	w.must(s.Collect(t.Context(), nil))
	w.has(f, true)
	w.offset += 2 * time.Hour
	w.must(s.Collect(t.Context(), nil))
	w.has(f, false)
	w.must(s.Write(t.Context(), []machineconfig.LargeFile{f}))
	w.has(f, true)
}

// TestOnlyFilesOfThisClusterAreDeleted: another cluster keeps its files in the same repository.
func TestOnlyFilesOfThisClusterAreDeleted(t *testing.T) {
	w, f := start(t), fileOf(1, 100)
	w.must(w.store().Write(t.Context(), []machineconfig.LargeFile{f}))
	other := w.store()
	w.offset = 24 * time.Hour
	w.must(other.Collect(t.Context(), map[string]bool{}))
	w.has(f, true)
}

func TestAFileThatChangesIsNotStored(t *testing.T) {
	w, f := start(t), fileOf(1, 100)
	f.FS = fileOf(2, 100).FS
	if err := w.store().Write(t.Context(), []machineconfig.LargeFile{f}); err == nil ||
		!strings.Contains(err.Error(), "has changed") {
		t.Error(err)
	}
	f.FS = fileOf(1, 100).FS
	w.has(f, false)
}

func TestWithoutARegistryEachFileIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for _, s := range []*content.Store{nil, {}} {
		w := s.Write(t.Context(), []machineconfig.LargeFile{fileOf(1, 10)})
		if fault.Of(w, "").Kind != fault.Stalled || !errors.Is(w, machineconfig.ErrNoContentStore) {
			t.Error(w)
		}
		if missing := s.Require(t.Context(), []string{"x"}); len(missing) != 1 {
			t.Errorf("missing: %q", missing)
		}
		if err := s.Write(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

// TestARegistryThatLosesIsAwayOrKeeps also has a registry that refuses the password.
func TestARegistryThatLosesIsAwayOrKeeps(t *testing.T) {
	w, f, fresh := start(t), fileOf(1, 1000), fileOf(2, 1000)
	s := w.store()
	w.must(s.Write(t.Context(), []machineconfig.LargeFile{f}))
	lost := func(want int) {
		t.Helper()
		if lost := s.Incomplete(t.Context(), map[string]bool{f.Hash: true}); len(lost) != want {
			t.Errorf("lost: %v", lost)
		}
	}
	lost(0)
	w.must(s.Registry.Delete(t.Context(), f.Hash))
	lost(1)
	if missing := s.Require(t.Context(), []string{f.Hash, fresh.Hash}); len(missing) != 2 {
		t.Errorf("missing: %v", missing)
	}
	w.must(s.Write(t.Context(), []machineconfig.LargeFile{f}))
	w.has(f, true)
	lost(0)
	w.configs = []*mcfgv1.MachineConfig{{
		ObjectMeta: metav1.ObjectMeta{Name: "10-f"},
		Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{
			Raw: fmt.Appendf(nil, `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/f","contents":{"source":%q}}]}}`,
				machineconfig.StoredSource(f.Hash)),
		}},
	}}
	for _, status := range []int{http.StatusInternalServerError, http.StatusUnauthorized, http.StatusForbidden} {
		w.fail = func(*http.Request) int { return status }
		s = w.store() // another leader, which does not know what the registry has
		lost(0)       // It is not known.
		w.must(s.Write(t.Context(), []machineconfig.LargeFile{f}))
		if missing := s.Require(t.Context(), []string{f.Hash}); len(missing) != 0 {
			t.Errorf("%d: missing: %v", status, missing)
		}
		if err := s.Write(t.Context(), []machineconfig.LargeFile{fresh}); err == nil ||
			strings.Contains(err.Error(), "geheim") {
			t.Errorf("%d: %v", status, err)
		}
	}
	w.fail = func(*http.Request) int { return http.StatusBadGateway }
	w.offset = 2 * time.Hour
	if err := s.Collect(t.Context(), nil); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("away: %v", err)
	}
	w.fail = func(r *http.Request) int {
		if r.Method == http.MethodDelete {
			return http.StatusMethodNotAllowed
		}
		return 0
	}
	w.must(s.Collect(t.Context(), nil)) // The log has it.
	w.has(f, true)
}
