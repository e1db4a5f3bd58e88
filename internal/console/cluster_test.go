package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/config"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// startCluster starts an API server with Bunsen's kinds and roles, and returns the connection of its administrator.
func startCluster(t *testing.T, options ...func(*envtest.APIServer)) (*rest.Config, client.Client) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Skip("KUBEBUILDER_ASSETS does not name the directory of kube-apiserver and etcd; make assets builds them")
	}
	dir := filepath.Join("..", "..", "config")
	no := false
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: &no, ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout: time.Minute,
		CRDDirectoryPaths:       []string{filepath.Join(dir, "crd")}, ErrorIfCRDPathMissing: true,
	}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node,RBAC")
	for _, set := range options {
		set(env.ControlPlane.GetAPIServer())
	}
	rc, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Log(err)
		}
	})
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(rc, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	roles, err := os.ReadFile(filepath.Join(dir, "rbac", "people.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(roles, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind == "ClusterRole" {
			create(t, admin, &role)
		}
	}
	return rc, admin
}

func create(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// tokenOf creates a service account with a role, and returns a token of it.
func tokenOf(t *testing.T, admin client.Client, name, role string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	create(t, admin, account)
	if role != "" {
		create(t, admin, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName,
				Kind:     "ClusterRole", Name: role,
			},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		})
	}
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// createRollout lets the pool edge roll out a commit to node n1, and waits for nothing.
func createRollout(t *testing.T, admin client.Client) {
	t.Helper()
	const first, second = "rendered-edge-11111111111111111111111111111111",
		"rendered-edge-22222222222222222222222222222222"
	source := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "os"}}
	source.Spec.URL, source.Spec.Ref.Branch, source.Spec.Interval.Duration = "https://git.example.org/os.git", "main",
		time.Minute
	create(t, admin, source)
	for i, config := range []string{second, first} {
		e := v1alpha1.HistoryEntry{Pools: map[string]string{"edge": config}}
		e.Revision, e.Subject, e.Author = "main@sha1:"+strings.Repeat(string(rune('b'-i)), 40), "motd: say hello",
			"Ada <ada@example.org>"
		e.Time = metav1.NewTime(noon.Add(-time.Duration(i) * time.Hour))
		source.Status.History = append(source.Status.History, e)
		mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: config}}
		mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"}}`)
		create(t, admin, mc)
	}
	source.Status.AppliedRevision = source.Status.History[0].Revision
	if err := admin.Status().Update(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		object client.Object
		patch  string
	}{
		{
			&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}},
			`{"metadata":{"annotations":{"bunsen.dev/source":"os","bunsen.dev/rollout":"{\"config\":\"` + second +
				`\",\"began\":\"2026-01-02T12:00:00Z\",\"before\":\"` + first + `\"}"}},
			"spec":{"nodeSelector":{"matchLabels":{"edge":""}},"configuration":{"name":"` + second + `"}}}`,
		},
		{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, `{"metadata":{"labels":{"edge":""},"annotations":{"` + v1alpha1.CurrentConfigAnnotation + `":"` + first + `","` + v1alpha1.DesiredConfigAnnotation + `":"` + first + `","` + v1alpha1.StateAnnotation + `":"Done"}}}`},
	} {
		if err := admin.Patch(t.Context(), change.object, client.RawPatch(types.MergePatchType,
			[]byte(change.patch))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEachUserReadsWithTheirOwnRights runs the console of several users with a real API server.
func TestEachUserReadsWithTheirOwnRights(t *testing.T) {
	rc, admin := startCluster(t)
	shared, err := Share(t.Context(), Sharing{
		Address: "127.0.0.1:0", Hosts: []string{"console.example.org"}, API: rc,
		Name: "kind",
	})
	if err != nil {
		t.Fatal(err)
	}
	api := shared.server.access.(*signIn).api
	if api.BearerToken != "" || api.BearerTokenFile != "" || api.Username != "" || api.CertFile != "" ||
		api.CertData != nil || api.KeyData != nil || api.Impersonate.UserName != "" {
		t.Fatalf("the console has credentials of its own: %v", api)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- shared.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	p := &played{base: "https://console.example.org"}
	create(t, admin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	viewerToken := tokenOf(t, admin, "viewer", "bunsen-viewer")
	viewer, nobody := shared.browser(t), shared.browser(t)
	if r := signInWith(t, viewer, p.base, viewerToken, "/"); r.status != http.StatusSeeOther ||
		r.header.Get("Location") != "/" || !strings.Contains(r.header.Get("Set-Cookie"), "__Host-bunsen-console-") ||
		!strings.Contains(r.header.Get("Set-Cookie"), "Secure") {
		t.Fatalf("signing in: %d %v %s", r.status, r.header, r.body)
	}
	if r := signInWith(t, nobody, p.base, tokenOf(t, admin, "nobody", ""), "/"); r.status != http.StatusSeeOther {
		t.Fatalf("signing in: %d %s", r.status, r.body)
	}

	t.Run("a viewer sees the cluster, and its changes", func(t *testing.T) {
		page := get(t, viewer, p.base+"/")
		if page.status != 200 || !strings.Contains(page.body, "system:serviceaccount:default:viewer") ||
			!strings.Contains(page.body, "Sign out") || strings.Contains(page.body, viewerToken) {
			t.Fatalf("%d\n%s", page.status, page.body)
		}
		s := p.listen(t, viewer, streamOf(t, page.body))
		create(t, admin, &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}})
		for { // other objects may change before
			if _, data := s.next(t); strings.Contains(data, `href="/pool/edge"`) {
				break
			}
		}
	})
	createRollout(t, admin)
	// until its watches have it
	for page := ""; !strings.Contains(page, `id="cell-n1"`) || !strings.Contains(page, "motd: say hello"); {
		page = get(t, viewer, p.base+"/pool/edge").body
	}
	t.Run("every page opens for a viewer, and names the role for what it does not show", func(t *testing.T) {
		says := map[string]string{
			"/pool/{pool}": "you may not list events", "/pool/{pool}/timeline": "you may not list events",
			"/node/{node}":                 "bunsen-config-viewer grants that right",
			"/pool/{pool}/commit/{commit}": "bunsen-config-viewer grants that right",
			"/compare":                     "bunsen-config-viewer grants that right",
			"/search":                      "bunsen-config-viewer grants that right",
		}
		values := strings.NewReplacer("{pool}", "edge", "{node}", "n1", "{commit}", strings.Repeat("b", 40))
		for _, route := range pages() {
			path := values.Replace(route.pattern)
			switch route.pattern {
			case "/compare":
				path += "?from=node/n1&to=pool/edge"
			case "/search":
				path += "?q=motd"
			}
			page := get(t, viewer, p.base+path)
			if page.status != 200 || !strings.Contains(page.body, says[route.pattern]) ||
				strings.Contains(page.body, "Not allowed") {
				t.Errorf("%s: %d\n%s", path, page.status, page.body)
			}
			if page := get(t, nobody, p.base+path); page.status != 403 || !strings.Contains(page.body, "Not allowed") ||
				!strings.Contains(page.body, "ClusterRole bunsen-viewer grants it") ||
				strings.Contains(page.body, "edge<") {
				t.Errorf("a user without rights opens %s:\n%s", path, page.body)
			}
		}
	})
	t.Run("a user without rights reads which role is missing", func(t *testing.T) {
		page := get(t, nobody, p.base+"/")
		if page.status != 403 || !strings.Contains(page.body, "Not allowed") ||
			!strings.Contains(page.body, "ClusterRole bunsen-viewer grants it") || strings.Contains(page.body, "edge") {
			t.Errorf("%d\n%s", page.status, page.body)
		}
	})
	t.Run("no token, another's token in the address, a wrong token", func(t *testing.T) {
		stranger := shared.browser(t)
		for _, path := range []string{"/", "/pool/edge", "/?token=" + viewerToken} {
			if r := get(t, stranger, p.base+path, "Authorization: Bearer "+viewerToken); r.status != 401 ||
				!strings.Contains(r.body, `action="/sign-in"`) || strings.Contains(r.body, "edge<") {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
		if r := get(t, stranger, p.base+"/events?page=/"); r.status != 401 {
			t.Errorf("a stream: %d", r.status)
		}
		for _, token := range []string{
			"", "x", viewerToken[:len(viewerToken)-3] + "abc", "a b", "a\nb",
			strings.Repeat("a", mostForm),
		} {
			r := signInWith(t, stranger, p.base, token, "/")
			if r.status != 401 && r.status != 400 || r.header.Get("Set-Cookie") != "" ||
				!strings.Contains(r.body, `role="alert"`) || token != "" && len(token) > 3 && strings.Contains(r.body,
				token) {
				t.Errorf("token %.20q: %d %v %.3000s", token, r.status, r.header, r.body)
			}
		}
	})
	t.Run("another site cannot sign a user in or out", func(t *testing.T) {
		for _, path := range []string{signInPath, signOutPath} {
			for _, header := range []string{
				"Origin: https://evil.example", "Origin: null",
				"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Host: evil.example",
			} {
				r := send(t, viewer, http.MethodPost, p.base+path, header)
				if r.status != 403 && r.status != 421 || r.header.Get("Set-Cookie") != "" {
					t.Errorf("%s with %s: %d %s", path, header, r.status, r.body)
				}
			}
		}
	})
	t.Run("after signing in, only a page opens", func(t *testing.T) {
		for next, want := range map[string]string{
			"/": "/", "https://evil.example/": "/", "//evil.example": "/",
			"/sign-out": "/", "/\\evil.example": "/", "/events?page=/": "/", "/?x=1": "/?x=1",
		} {
			if r := signInWith(t, shared.browser(t), p.base, viewerToken, next); r.status != http.StatusSeeOther ||
				r.header.Get("Location") != want {
				t.Errorf("%q opens %q", next, r.header.Get("Location"))
			}
		}
	})
	t.Run("signing out ends the session and its streams", func(t *testing.T) {
		leaver := shared.browser(t)
		signInWith(t, leaver, p.base, viewerToken, "/")
		s := p.listen(t, leaver, "/events?page=/")
		s.next(t)
		kept := leaver.Jar.Cookies(mustParse(t, p.base))[0]
		if r := send(t, leaver, http.MethodPost, p.base+signOutPath,
			"Origin: "+p.base); r.status != http.StatusSeeOther || !strings.Contains(r.header.Get("Set-Cookie"),
			"Max-Age=0") {
			t.Errorf("%d %v", r.status, r.header)
		}
		for s.lines.Scan() { // until the stream ends
		}
		if r := get(t, shared.browser(t), p.base+"/", "Cookie: "+kept.Name+"="+kept.Value); r.status != 401 {
			t.Errorf("the cookie still works: %d", r.status)
		}
	})
	t.Run("a session ends when the API server no longer accepts the token", func(t *testing.T) {
		s := p.listen(t, viewer, "/events?page=/")
		s.next(t)
		if err := admin.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      "viewer",
		}}); err != nil {
			t.Fatal(err)
		}
		for s.lines.Scan() { // until the stream ends
		}
		if r := get(t, viewer, p.base+"/"); r.status != 401 {
			t.Errorf("the session still works: %d", r.status)
		}
	})
}

// requests records what is read of an API server, and about which reads it is asked.
type requests struct {
	mu          sync.Mutex
	read, asked map[string]bool
	inner       http.RoundTripper
}

// RoundTrip records a request.
func (q *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var review authorizationv1.SelfSubjectAccessReview
		if _, _, err := serializer.NewCodecFactory(q.scheme()).UniversalDeserializer().Decode(body, nil,
			&review); err != nil {
			return nil, err
		}
		of := review.Spec.ResourceAttributes
		q.asked[strings.Join([]string{of.Verb, of.Group, of.Namespace, of.Resource, of.Name}, " ")] = true
	case r.Method == http.MethodGet && len(parts) > 2:
		group, rest := "", parts[2:] // api/v1
		if parts[0] == "apis" {
			group, rest = parts[1], parts[3:]
		}
		namespace := ""
		if len(rest) > 2 && rest[0] == "namespaces" {
			namespace, rest = rest[1], rest[2:]
		}
		if len(rest) > 0 {
			verb, name := "list", ""
			if len(rest) > 1 {
				verb, name = "get", rest[1]
			}
			if r.URL.Query().Get("watch") == "true" {
				verb = "watch"
			}
			q.read[strings.Join([]string{verb, group, namespace, rest[0], name}, " ")] = true
		}
	}
	return q.inner.RoundTrip(r)
}

func (q *requests) scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = authorizationv1.AddToScheme(scheme) // It always succeeds.
	return scheme
}

// TestEachReadIsAskedAbout: users share watches if the API server allows them the same reads. A read that nobody asked
// about could show one of them what they may not see.
func TestEachReadIsAskedAbout(t *testing.T) {
	rc, admin := startCluster(t)
	create(t, admin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	create(t, admin, &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}})
	createRollout(t, admin)
	q := &requests{read: map[string]bool{}, asked: map[string]bool{}}
	rc = rest.CopyConfig(rc)
	rc.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		q.inner = inner
		return q
	})
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(rc, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	access, err := kube.AccessOf(t.Context(), c)
	if err != nil || slices.Contains(access[:], false) {
		t.Fatalf("the administrator may read %v, %v", access, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = kube.FollowObjects(ctx, rc, c, &publisher{publish: func(state fleet.Cluster,
		problem error,
	) {
		if problem != nil || state.Daemons != nil { // the last one that is read
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	q.read["list   nodes "] = true // with an API server that cannot stream lists
	if diff := cmp.Diff(q.read, q.asked); diff != "" {
		t.Errorf("(-read +asked):\n%s", diff)
	}
	nobody := rest.AnonymousClientConfig(rc)
	nobody.BearerToken = tokenOf(t, admin, "nobody", "")
	if c, err = client.New(nobody, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if access, err := kube.AccessOf(t.Context(), c); err != nil || slices.Contains(access[:], true) {
		t.Errorf("a user without rights may read %v, %v", access, err)
	}
}

// browser returns a browser that finds the console by every name.
func (o *Shared) browser(t *testing.T) *http.Client {
	t.Helper()
	c := stranger(t)
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{
		InsecureSkipVerify: true,
	} //nolint:gosec // the certificate is not what this tests
	c.Transport.(*http.Transport).DialContext = dialer(o.listener.Addr().String())
	if c.Jar, _ = cookiejar.New(nil); c.Jar == nil {
		t.Fatal("no cookies")
	}
	return c
}

func signInWith(t *testing.T, c *http.Client, base, token, next string) response {
	t.Helper()
	form := url.Values{"token": {token}, "next": {next}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+signInPath,
		strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", base)
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		t.Fatal(err)
	}
	return response{r.StatusCode, r.Header, body.String()}
}

// TestASessionEndsWithItsToken: the time is in the token, and at most eight hours from now.
func TestASessionEndsWithItsToken(t *testing.T) {
	with := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
	}
	for token, want := range map[string]time.Duration{
		"opaque": sharedTime, "a.b.c": sharedTime, with(`{"exp":"soon"}`): sharedTime, with(`{}`): sharedTime,
		with(`{"exp":-1}`): sharedTime,
		with(fmt.Sprintf(`{"exp":%d}`, noon.Add(time.Hour).Unix())):     time.Hour,
		with(fmt.Sprintf(`{"exp":%d}`, noon.Add(72*time.Hour).Unix())):  sharedTime,
		with(fmt.Sprintf(`{"exp":%d}`, noon.Add(-72*time.Hour).Unix())): -72 * time.Hour,
	} {
		if got := endOf(token, noon).Sub(noon); got != want {
			t.Errorf("%s: the session lasts %s, want %s", token, got, want)
		}
	}
}

// TestWhatASharedConsoleNeeds: all problems at once, before it listens.
func TestWhatASharedConsoleNeeds(t *testing.T) {
	_, err := Share(t.Context(), Sharing{
		Address: "127.0.0.1:0", Hosts: []string{"https://x"}, CertFile: "a",
		API: &rest.Config{},
	})
	if err == nil || !strings.Contains(err.Error(), `--host "https://x": want a host`) ||
		!strings.Contains(err.Error(), "set both or neither") {
		t.Errorf("it says %v", err)
	}
	if _, err := Share(t.Context(), Sharing{Address: "127.0.0.1:0", API: &rest.Config{}}); err == nil ||
		!strings.Contains(err.Error(), "--host is missing") {
		t.Errorf("it says %v", err)
	}
}

// TestTheComponentHasNoRights: no manifest binds a role to the console, and its pod has no token.
func TestTheComponentHasNoRights(t *testing.T) {
	err := fs.WalkDir(config.Files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(config.Files, path)
		if bytes.Contains(text, []byte("bunsen-console")) && !strings.HasPrefix(path, "components/console/") {
			t.Errorf("%s names the console", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(config.Files, "components/console/console.yaml")
	if err != nil {
		t.Fatal(err)
	}
	withoutToken := 0
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o struct {
			Kind                         string
			AutomountServiceAccountToken *bool
			Spec                         struct {
				Template struct{ Spec corev1.PodSpec }
			}
		}
		if err := yaml.Unmarshal(document, &o); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(o.Kind, "Role") {
			t.Errorf("the component has a %s", o.Kind)
		}
		for _, automount := range []*bool{
			o.AutomountServiceAccountToken,
			o.Spec.Template.Spec.AutomountServiceAccountToken,
		} {
			if automount != nil && !*automount {
				withoutToken++
			}
		}
		for _, v := range o.Spec.Template.Spec.Volumes {
			if v.Projected != nil {
				t.Errorf("volume %s may have a token", v.Name)
			}
		}
	}
	if withoutToken != 2 {
		t.Error("the pod has a token")
	}
}

// TestAnOperatorPausesAndResumes runs the console of several users with a real API server: an operator pauses a pool,
// resumes it and suspends a GitSource, and a viewer of the same console can do nothing of that.
func TestAnOperatorPausesAndResumes(t *testing.T) {
	rc, admin := startCluster(t)
	shared, err := Share(t.Context(), Sharing{
		Address: "127.0.0.1:0", Hosts: []string{"console.example.org"}, API: rc, Name: "kind",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- shared.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	create(t, admin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	create(t, admin, &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}})
	createRollout(t, admin)
	const base, who = "https://console.example.org", "system:serviceaccount:default:operator"
	operator, viewer := shared.browser(t), shared.browser(t)
	signInWith(t, operator, base, tokenOf(t, admin, "operator", "bunsen-operator"), "/")
	signInWith(t, viewer, base, tokenOf(t, admin, "viewer", "bunsen-viewer"), "/")
	create(t, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator-views"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bunsen-viewer"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "operator"}},
	})
	// until the rights count and the watches have the pool
	for page := ""; !strings.Contains(page, "Pause…"); {
		page = get(t, operator, base+"/pool/edge").body
	}
	submit := func(path string, form url.Values) response {
		t.Helper()
		maps.Copy(form, hidden(t, path, get(t, operator, base+path).body))
		r := post(t, operator, base+path, form.Encode(), formType, "Origin: "+base)
		if r.status != http.StatusSeeOther {
			t.Fatalf("%s: %d\n%s", path, r.status, r.body)
		}
		return get(t, operator, base+r.header.Get("Location"))
	}
	pool := func() (p mcfgv1.MachineConfigPool) {
		t.Helper()
		if err := admin.Get(t.Context(), client.ObjectKey{Name: "edge"}, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	page := submit("/pool/edge/pause", url.Values{"because": {"the switches"}})
	if p := pool(); !p.Spec.Paused || p.Annotations[v1alpha1.PausedByAnnotation] != who+": the switches" ||
		!strings.Contains(page.body, "pool/edge is paused") || !strings.Contains(page.body, "Resume…") ||
		strings.Contains(page.body, "Pause…") {
		t.Errorf("paused: %v, %v\n%s", p.Spec.Paused, p.Annotations, page.body)
	}
	page = get(t, viewer, base+"/pool/edge")
	for page.status != http.StatusOK || !strings.Contains(page.body, "the switches") {
		page = get(t, viewer, base+"/pool/edge")
	}
	if strings.Contains(page.body, `class="action`) {
		t.Errorf("a viewer has actions:\n%s", page.body)
	}
	operators := tokenInput.FindStringSubmatch(get(t, operator, base+"/pool/edge/resume").body)[1]
	for _, path := range []string{"/pool/edge/resume", "/pool/edge/pause", "/source/os/suspend"} {
		if page := get(t, viewer, base+path); page.status != 403 || !strings.Contains(page.body, "bunsen-operator") {
			t.Errorf("%s: a viewer gets %d\n%s", path, page.status, page.body)
		}
		form := url.Values{fieldToken: {operators}, "because": {"x"}}
		if r := post(t, viewer, base+path, form.Encode(), formType, "Origin: "+base); r.status != 403 {
			t.Errorf("%s: a viewer sends the operator's token: %d", path, r.status)
		}
	}
	if !pool().Spec.Paused {
		t.Error("the viewer resumed the pool")
	}
	page = submit("/pool/edge/resume", url.Values{})
	if p := pool(); p.Spec.Paused || p.Annotations[v1alpha1.PausedByAnnotation] != "" ||
		!strings.Contains(page.body, "pool/edge continues") {
		t.Errorf("resumed: %v, %v\n%s", p.Spec.Paused, p.Annotations, page.body)
	}
	page = submit("/source/os/suspend", url.Values{"because": {"the server moves"}, "until": {"2h"}})
	var source v1alpha1.GitSource
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "os"}, &source); err != nil {
		t.Fatal(err)
	}
	if !source.Spec.Suspend || source.Spec.SuspendUntil == nil || !strings.Contains(page.body, "/source/os/resume") {
		t.Errorf("suspended: %v\n%s", source.Spec, page.body)
	}
	var events corev1.EventList
	if err := admin.List(t.Context(), &events, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{}
	for i := range events.Items {
		if e := &events.Items[i]; e.Source.Component == component {
			notes[e.InvolvedObject.Kind+" "+e.Reason] = e.Message
		}
	}
	for reason, want := range map[string]string{
		"MachineConfigPool Paused": who + ": the switches: pool/edge is paused", "MachineConfigPool Resumed": who +
			": pool/edge continues", "GitSource Suspended": who + ": the server moves: gitsource/os is suspended",
	} {
		if !strings.HasPrefix(notes[reason], want) {
			t.Errorf("event %s: %q", reason, notes[reason])
		}
	}
}
