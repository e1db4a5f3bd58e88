package console

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

const (
	oldConfig = "rendered-edge-11111111111111111111111111111111"
	newConfig = "rendered-edge-22222222222222222222222222222222"
)

var (
	oldRevision = "main@sha1:" + strings.Repeat("a", 40)
	newRevision = "main@sha1:" + strings.Repeat("b", 40)
)

// stage is a console with one user, whose cluster is in memory.
type stage struct {
	*played
	client.Client
	browser *http.Client
	// may answers whether the user may patch a resource.
	may func(resource string) bool
	// fails is the answer to a patch or an event; nil: it succeeds
	fails func(client.Object) error
	// lost: the API server carries out a patch, but its answer is lost
	lost bool
	// down: the API server sends no object
	down bool
	// silent: the API server does not answer questions about rights
	silent bool
	// changed gets an entry after each patch.
	changed chan struct{}
}

// parts are the objects of a stage: the pool edge, whose node n1 runs the old config and whose target is the new one,
// and the GitSource os.
type parts struct {
	pool   mcfgv1.MachineConfigPool
	node   corev1.Node
	source v1alpha1.GitSource
	// policy of every pool; nil for none
	policy *v1alpha1.RolloutPolicy
}

func newStage(t *testing.T, set func(*parts)) *stage {
	t.Helper()
	p := parts{
		pool:   mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "edge", UID: "1"}},
		node:   corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2", Labels: map[string]string{"edge": ""}}},
		source: v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "os", UID: "3"}},
	}
	p.pool.Annotations = map[string]string{}
	p.pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"edge": ""}}
	p.pool.Spec.Configuration.Name = newConfig
	p.node.Annotations = map[string]string{
		v1alpha1.CurrentConfigAnnotation: oldConfig, v1alpha1.DesiredConfigAnnotation: oldConfig,
		v1alpha1.StateAnnotation: "Done",
	}
	p.source.Status.AppliedRevision = newRevision
	for i, config := range []string{newConfig, oldConfig} {
		e := v1alpha1.HistoryEntry{Pools: map[string]string{"edge": config}}
		e.Revision, e.Subject = []string{newRevision, oldRevision}[i], "motd: say <hello>"
		p.source.Status.History = append(p.source.Status.History, e)
	}
	if set != nil {
		set(&p)
	}
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		may: func(string) bool { return true }, fails: func(client.Object) error { return nil },
		changed: make(chan struct{}, 100),
	}
	objects := []client.Object{&p.pool, &p.node, &p.source}
	if p.policy != nil {
		objects = append(objects, p.policy)
	}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.GitSource{}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption,
		) error {
			if s.down {
				return &url.Error{Op: "Get", URL: "https://api/", Err: io.ErrUnexpectedEOF}
			}
			return c.Get(ctx, key, o, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if review, ok := o.(*authorizationv1.SelfSubjectAccessReview); ok {
				review.Status.Allowed = s.may(review.Spec.ResourceAttributes.Resource)
				if s.silent {
					<-ctx.Done()
				}
				return ctx.Err()
			}
			if err := s.fails(o); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			if err := s.fails(o); err != nil {
				return err
			}
			err := c.Patch(ctx, o, patch, options...)
			s.changed <- struct{}{}
			if s.lost {
				return &url.Error{Op: "Patch", URL: "https://api/", Err: io.ErrUnexpectedEOF}
			}
			return err
		},
	}).Build()
	if err := s.Status().Update(t.Context(), &p.source); err != nil {
		t.Fatal(err)
	}
	s.played = playAs(t, s.Client, func(ctx context.Context, publish func(fleet.Cluster, error)) {
		for {
			c, err := kube.ReadObjects(ctx, s.Client)
			c.Rendered = kube.NamedConfigs(c)
			publish(c, err)
			select {
			case <-ctx.Done():
				return
			case <-s.changed:
			}
		}
	}, false)
	s.browser = s.signIn(t)
	return s
}

var (
	tokenInput = regexp.MustCompile(`name="form-token" value="([^"]+)"`)
	stateInput = regexp.MustCompile(`name="form-state" value="([^"]+)"`)
)

// token reads a form as a browser does, and returns its token.
func (s *stage) token(t *testing.T, path string) string {
	t.Helper()
	page := get(t, s.browser, s.base+path)
	found := tokenInput.FindStringSubmatch(page.body)
	if page.status != http.StatusOK || found == nil {
		t.Fatalf("%s has no form: %d\n%s", path, page.status, page.body)
	}
	return found[1]
}

// open returns what the form of an action sends without an entry of the user.
func (s *stage) open(t *testing.T, path string) url.Values {
	t.Helper()
	return hidden(t, path, get(t, s.browser, s.base+path).body)
}

// hidden returns the fields of a form that no user sees.
func hidden(t *testing.T, path, page string) url.Values {
	t.Helper()
	token, state := tokenInput.FindStringSubmatch(page), stateInput.FindStringSubmatch(page)
	if token == nil || state == nil {
		t.Fatalf("%s has no form:\n%s", path, page)
	}
	return url.Values{fieldToken: {token[1]}, fieldState: {state[1]}}
}

// submit opens a form, fills it in and sends it.
func (s *stage) submit(t *testing.T, path string, form url.Values) response {
	t.Helper()
	return s.send(t, path, s.open(t, path), form)
}

// send sends a form that was opened before.
func (s *stage) send(t *testing.T, path string, opened, form url.Values) response {
	t.Helper()
	sent := maps.Clone(opened)
	maps.Copy(sent, form)
	return post(t, s.browser, s.base+path, sent.Encode(), "Origin: "+s.base, "Sec-Fetch-Site: same-origin",
		"Content-Type: application/x-www-form-urlencoded")
}

func post(t *testing.T, c *http.Client, address, body string, headers ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Add(name, value)
	}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{r.StatusCode, r.Header, string(text)}
}

// state returns what an action can change, in one text.
func (s *stage) state(t *testing.T) string {
	t.Helper()
	var pool mcfgv1.MachineConfigPool
	var node corev1.Node
	var source v1alpha1.GitSource
	for name, o := range map[string]client.Object{"edge": &pool, "n1": &node, "os": &source} {
		if err := s.Get(t.Context(), client.ObjectKey{Name: name}, o); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintln(pool.Spec.Paused, pool.Annotations, node.Annotations, source.Spec.Suspend,
		source.Spec.SuspendUntil, source.Annotations)
}

// events returns the events of a stage, each as one line.
func (s *stage) events(t *testing.T) (all []string) {
	t.Helper()
	var list corev1.EventList
	if err := s.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		about := e.InvolvedObject
		all = append(all, fmt.Sprintf("%s/%s %s: %s", about.Kind, about.Name, e.Reason, e.Message))
	}
	return all
}

// paused, and its neighbours, are states of the parts.
func paused(p *parts) {
	p.pool.Spec.Paused = true
	p.pool.Annotations[v1alpha1.PausedByAnnotation] = "bob: the switches"
}

func held(p *parts) {
	p.pool.Annotations[v1alpha1.HoldAnnotation] = oldConfig
	p.pool.Annotations[v1alpha1.HeldRevisionAnnotation] = oldRevision
	p.pool.Annotations[v1alpha1.HeldByAnnotation] = "bob: the kernel"
}

func suspended(p *parts) {
	p.source.Spec.Suspend = true
	p.source.Annotations = map[string]string{v1alpha1.SuspendedByAnnotation: "bob: the server moves"}
}

// shut: every window of the pool is over.
func shut(p *parts) {
	over := metav1.Unix(0, 0)
	p.policy = &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "nights"}}
	p.policy.Spec.Windows = []v1alpha1.MaintenanceWindow{{
		Kind: v1alpha1.WindowAllow, Schedule: "@daily", Duration: metav1.Duration{Duration: time.Hour}, Until: &over,
	}}
}

func failed(p *parts) {
	p.node.Annotations[v1alpha1.DesiredConfigAnnotation] = newConfig
	p.node.Annotations[v1alpha1.StateAnnotation] = "Degraded"
	p.node.Annotations[v1alpha1.ReasonAnnotation] = "the disk is full"
}

// TestWhatAFormDoes: each sentence is a state, a form as a user fills it in, and what it changes. The page that follows
// says what was done, and an event says who did it.
func TestWhatAFormDoes(t *testing.T) {
	for sentence, c := range map[string]struct {
		state func(*parts)
		path  string
		form  url.Values
		// of the form, of the state after it, of the next page, and of the event
		shows, becomes, says, event string
	}{
		"a pool is paused": {
			nil, "/pool/edge/pause",
			url.Values{"because": {"factory <freeze>"}},
			"1 node waits for its config.", "bunsen.dev/paused-by:alice: factory <freeze>",
			"pool/edge is paused: no updates",
			"MachineConfigPool/edge Paused: alice: factory <freeze>: pool/edge is paused: no updates",
		},
		"a pool is paused until a time": {
			nil, "/pool/edge/pause",
			url.Values{"because": {"x"}, "until": {"2099-01-02T03:04:05Z"}},
			"Empty: until somebody resumes the pool.", "bunsen.dev/paused-until:2099-01-02T03:04:05Z",
			"pool/edge is paused", "Paused: alice: x:",
		},
		"a paused pool gets a new reason": {
			paused, "/pool/edge/pause",
			url.Values{"because": {"still the switches"}},
			"The pool is paused by bob: the switches. The new reason", "paused-by:alice: still the switches",
			"before, it was paused by bob: the switches", "Paused: alice: still the switches:",
		},
		"a pool resumes": {
			paused, "/pool/edge/resume", nil, "The pool is paused by bob: the switches.", "false map[] map",
			"pool/edge continues; it was paused by bob: the switches",
			"MachineConfigPool/edge Resumed: alice: pool/edge continues",
		},
		"a pool opens outside its windows": {
			shut, "/pool/edge/resume",
			url.Values{"open-for": {"2h"}},
			"Its maintenance windows are closed",
			"bunsen.dev/open-until:", "may update outside its maintenance windows until",
			"MachineConfigPool/edge Resumed: alice: pool/edge may update outside",
		},
		"a pool is held at an earlier commit": {
			nil, "/pool/edge/hold",
			url.Values{"because": {"the kernel"}, "at": {oldRevision}},
			"ClusterRole bunsen-config-viewer grants that right", "bunsen.dev/hold:" + oldConfig, "pool/edge has a hold at", "",
		},
		"a pool is held at its present commit": {
			nil, "/pool/edge/hold",
			url.Values{"because": {"the kernel"}, "at": {newRevision}},
			"(the pool's config now)", "bunsen.dev/hold:" + newConfig, "it is the pool's config now",
			"MachineConfigPool/edge Held: alice: the kernel: pool/edge has a hold at",
		},
		"a pool is released": {
			held, "/pool/edge/release", nil, "it had a hold at", "bunsen.dev/steered-by:" + oldConfig + " alice",
			"pool/edge follows its sources again", "MachineConfigPool/edge Released: alice: pool/edge follows",
		},
		"a pool retries its failed nodes": {
			failed, "/pool/edge/retry", nil, "it had failed: the disk is full", "bunsen.dev/retry:",
			"node/n1 tries " + newConfig + " once more", "MachineConfigPool/edge RetryRequested: alice: node/n1 tries",
		},
		"a node retries": {
			failed, "/node/n1/retry", nil, "it had failed: the disk is full", "bunsen.dev/retry:",
			"node/n1 tries " + newConfig + " once more", "Node/n1 RetryRequested: alice: node/n1 tries",
		},
		"a GitSource is suspended": {
			nil, "/source/os/suspend",
			url.Values{"because": {"the server moves"}, "until": {"2099-01-02T03:04:05Z"}},
			"is applied, and stays so.", "true 2099-01-02 03:04:05", "gitsource/os is suspended",
			"GitSource/os Suspended: alice: the server moves: gitsource/os is suspended",
		},
		"a GitSource resumes": {
			suspended, "/source/os/resume", nil, "it was suspended by bob: the server moves", "false <nil>",
			"gitsource/os is followed again", "GitSource/os Resumed: alice: gitsource/os is followed again",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t, c.state)
			form := get(t, s.browser, s.base+c.path)
			if !strings.Contains(html.UnescapeString(form.body), c.shows) ||
				!strings.Contains(form.body, `<p class="command"><code>bunsen `) ||
				strings.Contains(form.body, "sse-connect") {
				t.Errorf("the form does not show %q:\n%s", c.shows, form.body)
			}
			checkHarmless(t, "the form", form.body)
			done := s.submit(t, c.path, c.form)
			if done.status != http.StatusSeeOther || !strings.Contains(s.state(t), c.becomes) {
				t.Fatalf("%d %s\n%s", done.status, done.body, s.state(t))
			}
			page := get(t, s.browser, s.base+done.header.Get("Location"))
			if page.status != 200 || !strings.Contains(html.UnescapeString(page.body), c.says) {
				t.Errorf("the next page does not say %q: %d\n%s", c.says, page.status, page.body)
			}
			_, region, _ := strings.Cut(page.body, `<section id="actions"`)
			region, _, _ = strings.Cut(region, "</section>")
			checkHarmless(t, "the next page", "<section "+region+"</section>")
			if again := get(t, s.browser, s.base+"/pool/edge?done=2"); strings.Contains(again.body, `class="done"`) {
				t.Errorf("a page has the note of another one:\n%s", again.body)
			}
			events := s.events(t)
			if c.event == "" && len(events) > 0 || c.event != "" && (len(events) != 1 ||
				!strings.Contains(events[0], c.event)) {
				t.Errorf("events: %q", events)
			}
			before := s.state(t)
			if r := s.submit(t, c.path, nil); r.status >= 500 {
				t.Errorf("the same again: %d", r.status)
			}
			if after := s.state(t); after != before && !strings.Contains(c.path, "retry") {
				t.Errorf("the same again without its fields changes\n%s to\n%s", before, after)
			}
		})
	}
}

// TestWhatAFormRefuses: each sentence is a form with a mistake. The form comes back with what the user wrote and with
// the problem beside its field, and nothing is changed.
func TestWhatAFormRefuses(t *testing.T) {
	for sentence, c := range map[string]struct {
		state func(*parts)
		path  string
		form  url.Values
		says  string
	}{
		"no reason": {nil, "/pool/edge/pause", url.Values{"until": {"2h"}}, `id="because-problem">Say why`},
		"a reason of blanks": {
			nil, "/pool/edge/pause", url.Values{"because": {" \t\n"}}, `id="because-problem">Say why`,
		},
		"a long reason": {
			nil, "/pool/edge/pause", url.Values{"because": {strings.Repeat("ä", 501)}}, "more than 500 characters",
		},
		"a reason that is not UTF-8": {
			nil, "/source/os/suspend", url.Values{"because": {"a\xffb"}}, `id="because-problem">This text is not UTF-8`,
		},
		"an end that is no time": {
			nil, "/pool/edge/pause",
			url.Values{"because": {"kept & shown"}, "until": {"soon"}},
			`id="until-problem">&#34;soon&#34;: want a time`,
		},
		"an end in the past": {
			nil, "/pool/edge/pause",
			url.Values{"because": {"x"}, "until": {"2020-01-02T03:04:05Z"}},
			`id="until-problem">2020-01-02T03:04:05Z is not in the future`,
		},
		"a short opening": {
			shut, "/pool/edge/resume", url.Values{"open-for": {"10s"}}, `id="open-for-problem">10s: want a minute or more`,
		},
		"an opening that is no duration": {
			shut, "/pool/edge/resume", url.Values{"open-for": {"a while"}}, `id="open-for-problem">want a number and a unit`,
		},
		"no opening": {shut, "/pool/edge/resume", nil, `id="open-for-problem">Say for how long.`},
		"no commit":  {nil, "/pool/edge/hold", url.Values{"because": {"x"}}, `id="at-problem">Choose a commit.`},
		"a commit that the form does not offer": {
			nil, "/pool/edge/hold",
			url.Values{"because": {"x"}, "at": {"cccccccc"}},
			`id="at-problem">&#34;cccccccc&#34;: no commit`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t, c.state)
			before := s.state(t)
			r := s.submit(t, c.path, c.form)
			if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, c.says) ||
				!strings.Contains(r.body, "Nothing is changed") {
				t.Errorf("%d, and not %q:\n%s", r.status, c.says, r.body)
			}
			for name, values := range c.form {
				value := strings.ReplaceAll(values[0], "\xff", "\uFFFD")
				if name != "at" && !strings.Contains(html.UnescapeString(r.body), `value="`+value+`"`) {
					t.Errorf("what the user wrote into %s is lost:\n%s", name, r.body)
				}
			}
			if after := s.state(t); after != before || len(s.events(t)) > 0 {
				t.Errorf("it changes\n%s to\n%s", before, after)
			}
		})
	}
}

// TestWhichActionsAPageHas: those that the state of the object allows, and the rights of the viewer.
func TestWhichActionsAPageHas(t *testing.T) {
	links := regexp.MustCompile(`<a class="action[^"]*" href="([^"]*)">([^<]*)</a>`)
	all := func(string) bool { return true }
	for sentence, c := range map[string]struct {
		state func(*parts)
		may   func(resource string) bool
		page  string
		want  string
	}{
		"a pool":        {nil, all, "/pool/edge", "/pool/edge/pause Pause… /pool/edge/hold Hold…"},
		"a paused pool": {paused, all, "/pool/edge", "/pool/edge/resume Resume… /pool/edge/hold Hold…"},
		"a pool outside its windows": {
			shut, all, "/pool/edge",
			"/pool/edge/pause Pause… /pool/edge/resume Open outside the windows… /pool/edge/hold Hold…",
		},
		"a held pool": {
			held, all, "/pool/edge",
			"/pool/edge/pause Pause… /pool/edge/hold Hold… /pool/edge/release Release…",
		},
		"a pool with a failed node": {
			failed, all, "/pool/edge",
			"/pool/edge/pause Pause… /pool/edge/hold Hold… /pool/edge/retry Retry…",
		},
		"a viewer who may change no node": {
			failed, func(resource string) bool { return resource != "nodes" }, "/pool/edge",
			"/pool/edge/pause Pause… /pool/edge/hold Hold…",
		},
		"a viewer without rights": {failed, func(string) bool { return false }, "/pool/edge", ""},
		"a node":                  {nil, all, "/node/n1", ""},
		"a failed node":           {failed, all, "/node/n1", "/node/n1/retry Retry…"},
		"a failed node of a viewer without rights": {
			failed, func(string) bool { return false }, "/node/n1", "",
		},
		"a source":           {nil, all, "/", "/source/os/suspend Suspend…"},
		"a suspended source": {suspended, all, "/", "/source/os/resume Resume…"},
	} {
		s := newStage(t, c.state)
		s.may = c.may
		var found []string
		for _, m := range links.FindAllStringSubmatch(get(t, s.browser, s.base+c.page).body, -1) {
			found = append(found, m[1], m[2])
		}
		if got := strings.Join(found, " "); got != c.want {
			t.Errorf("%s: the page has %q, want %q", sentence, got, c.want)
		}
	}
}

// TestAnActionThatIsImpossible: its form says so, and has no button.
func TestAnActionThatIsImpossible(t *testing.T) {
	s := newStage(t, nil)
	for path, want := range map[string]string{
		"/pool/edge/resume": "The pool is not paused.", "/pool/edge/release": "has no hold; nothing is changed",
		"/pool/edge/retry": "nothing is changed", "/node/n1/retry": "has failed nothing",
		"/source/os/resume": "is not suspended; nothing is changed",
	} {
		page := get(t, s.browser, s.base+path)
		if page.status != 200 || !strings.Contains(page.body, want) || strings.Contains(page.body, "<button>") {
			t.Errorf("%s: %d\n%s", path, page.status, page.body)
		}
	}
	for _, path := range []string{
		"/pool/gone/pause", "/node/gone/retry", "/source/gone/suspend", "/pool/%2e%2e/pause",
	} {
		if page := get(t, s.browser, s.base+path); page.status != 404 {
			t.Errorf("%s: %d\n%s", path, page.status, page.body)
		}
	}
}

// TestWhatTheAPIServerSays: a refusal is beside the form, and a lost answer is not taken for one. An event that the
// user may not write prevents nothing.
func TestWhatTheAPIServerSays(t *testing.T) {
	resource := schema.GroupResource{Group: mcfgv1.GroupName, Resource: "machineconfigpools"}
	forbidden := apierrors.NewForbidden(resource, "edge", errors.New("no"))
	for sentence, c := range map[string]struct {
		fails   func(client.Object) error
		lost    bool
		status  int
		says    string
		changes bool
	}{
		"it refuses": {
			func(client.Object) error { return forbidden }, false, 403,
			"Not changed: permission denied: changing mcp/edge", false,
		},
		"it finds the object no more": {
			func(client.Object) error { return apierrors.NewNotFound(resource, "edge") }, false, 422,
			"there is none of that name on the cluster", false,
		},
		"it fails": {
			func(client.Object) error { return apierrors.NewInternalError(errors.New("etcd")) }, false, 303,
			"It is not known whether mcp/edge was changed", false,
		},
		"its answer is lost": {
			func(client.Object) error { return nil }, true, 303, "It is not known whether mcp/edge was changed", true,
		},
		"the user may write no events": {
			func(o client.Object) error {
				if _, ok := o.(*corev1.Event); ok {
					return forbidden
				}
				return nil
			}, false, 303, "pool/edge is paused", true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t, nil)
			s.fails, s.lost = c.fails, c.lost
			r := s.submit(t, "/pool/edge/pause", url.Values{"because": {"kept"}})
			body := r.body
			if r.status == http.StatusSeeOther {
				body = get(t, s.browser, s.base+r.header.Get("Location")).body
			}
			if r.status != c.status || !strings.Contains(body, c.says) || len(s.events(t)) > 0 {
				t.Errorf("%d, and not %q:\n%s", r.status, c.says, body)
			}
			if r.status != http.StatusSeeOther && !strings.Contains(body, `value="kept"`) {
				t.Errorf("what the user wrote is lost:\n%s", body)
			}
			if changed := strings.HasPrefix(s.state(t), "true"); changed != c.changes {
				t.Errorf("paused is %v", changed)
			}
		})
	}
}

// TestAnActionIsDecidedByTheNewestObject: the watches may be late, and another user may have acted meanwhile.
func TestAnActionIsDecidedByTheNewestObject(t *testing.T) {
	s := newStage(t, nil)
	if page := get(t, s.browser, s.base+"/pool/edge"); !strings.Contains(page.body, "Pause…") {
		t.Fatalf("%d\n%s", page.status, page.body)
	}
	var pool mcfgv1.MachineConfigPool
	if err := s.Get(t.Context(), client.ObjectKey{Name: "edge"}, &pool); err != nil {
		t.Fatal(err)
	}
	p := parts{pool: pool}
	p.pool.Annotations = map[string]string{}
	paused(&p)
	if err := s.Update(t.Context(), &p.pool); err != nil { // No watch tells the console.
		t.Fatal(err)
	}
	page := get(t, s.browser, s.base+"/pool/edge/pause")
	if !strings.Contains(page.body, "The pool is paused by bob: the switches.") {
		t.Errorf("the form for a second pause:\n%s", page.body)
	}
	if r := s.submit(t, "/pool/edge/resume", nil); r.status != 303 || !strings.HasPrefix(s.state(t), "false map[]") {
		t.Errorf("resuming: %d %s\n%s", r.status, r.body, s.state(t))
	}
}

// TestAFormSurvivesAnOutage: while the API server does not answer, the form comes back with what the user wrote, and
// does not load itself again.
func TestAFormSurvivesAnOutage(t *testing.T) {
	s := newStage(t, nil)
	opened := s.open(t, "/pool/edge/pause")
	s.down = true
	r := s.send(t, "/pool/edge/pause", opened, url.Values{"because": {"kept"}})
	if r.status != http.StatusBadGateway || !strings.Contains(r.body, `value="kept"`) ||
		!strings.Contains(r.body, "Nothing is changed: reading pool/edge") || r.header.Get("Refresh") != "" {
		t.Errorf("%d %v\n%s", r.status, r.header, r.body)
	}
	s.down = false
	if !strings.HasPrefix(s.state(t), "false") {
		t.Error("the pool is paused")
	}
}

// TestAPoolWithManyFailedNodes: the note names the first ones and counts the others, and one event is about all.
func TestAPoolWithManyFailedNodes(t *testing.T) {
	s := newStage(t, failed)
	for i := range 30 {
		p := parts{}
		p.node.Name, p.node.Labels, p.node.Annotations = fmt.Sprintf("n2-%d", i), map[string]string{"edge": ""},
			map[string]string{v1alpha1.CurrentConfigAnnotation: oldConfig}
		failed(&p)
		if err := s.Create(t.Context(), &p.node); err != nil {
			t.Fatal(err)
		}
	}
	s.changed <- struct{}{}
	for page := ""; !strings.Contains(page, "and 11 more"); { // until the watches have them
		page = get(t, s.browser, s.base+"/pool/edge/retry").body
	}
	r := s.submit(t, "/pool/edge/retry", nil)
	page := get(t, s.browser, s.base+r.header.Get("Location"))
	if lines := strings.Count(page.body, `<p class="done">`); lines != mostLines+1 ||
		!strings.Contains(page.body, `<p class="done">and 11 more</p>`) {
		t.Errorf("%d lines:\n%s", lines, page.body)
	}
	if events := s.events(t); len(events) != 1 || !strings.Contains(events[0], "; and 30 more") {
		t.Errorf("events: %q", events)
	}
}

// TestAConsoleThatOnlyReads has no actions: neither links, nor forms, nor addresses to send one to.
func TestAConsoleThatOnlyReads(t *testing.T) {
	s := newStage(t, nil)
	only := playAs(t, s.Client, func(ctx context.Context, publish func(fleet.Cluster, error)) {
		c, err := kube.ReadObjects(ctx, s.Client)
		publish(c, err)
		<-ctx.Done()
	}, true)
	c := only.signIn(t)
	if page := get(t, c, only.base+"/pool/edge"); page.status != 200 || strings.Contains(page.body, `class="action`) {
		t.Errorf("%d\n%s", page.status, page.body)
	}
	for _, a := range actions() {
		path := a.path(map[string]string{kube.KindPool: "edge", kube.KindNode: "n1", kube.KindSource: "os"}[a.kind])
		if r := get(t, c, only.base+path); r.status != 404 {
			t.Errorf("%s: %d", path, r.status)
		}
		r := post(t, c, only.base+path, "because=x", "Origin: "+only.base,
			"Content-Type: application/x-www-form-urlencoded")
		if r.status != 405 || r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %v", path, r.status, r.header)
		}
	}
}

// TestAnOutageDelaysNoPage: a page waits once for an answer about rights, and not again at once. What the API server
// said before counts meanwhile.
func TestAnOutageDelaysNoPage(t *testing.T) {
	s := newStage(t, nil)
	s.silent = true
	began := time.Now()
	for range 3 {
		if page := get(t, s.browser, s.base+"/pool/edge"); page.status != 200 || strings.Contains(page.body, "Pause…") {
			t.Errorf("%d\n%s", page.status, page.body)
		}
	}
	if took := time.Since(began); took > 2*rightTime {
		t.Errorf("three pages take %s", took)
	}
	s.silent = false
	s.visitor.rights = rights{}
	get(t, s.browser, s.base+"/pool/edge")
	s.silent = true
	for key, known := range s.visitor.rights.known {
		known.ends = time.Now()
		s.visitor.rights.known[key] = known
	}
	if page := get(t, s.browser, s.base+"/pool/edge"); !strings.Contains(page.body, "Pause…") {
		t.Errorf("in an outage, the page has no actions any more:\n%s", page.body)
	}
}

// TestRightsAreAskedForOnce: pages of one user repeat no question to the API server within half a minute.
func TestRightsAreAskedForOnce(t *testing.T) {
	s := newStage(t, nil)
	var asked []string
	s.may = func(resource string) bool {
		asked = append(asked, resource)
		return true
	}
	for range 3 {
		get(t, s.browser, s.base+"/pool/edge")
		get(t, s.browser, s.base+"/")
	}
	if slices.Sort(asked); !slices.Equal(asked, []string{"gitsources", "machineconfigpools"}) {
		t.Errorf("the console asks for %q", asked)
	}
}

// TestAFormIsForTheStateThatItShowed: A opens a form, B acts meanwhile, and A's form changes nothing of B's: it comes
// back with the new state, and counts when it is sent again.
func TestAFormIsForTheStateThatItShowed(t *testing.T) {
	by := func(set func(*parts), reason string) func(*parts) {
		return func(p *parts) {
			set(p)
			for _, at := range []map[string]string{p.pool.Annotations, p.source.Annotations} {
				for _, key := range []string{
					v1alpha1.PausedByAnnotation, v1alpha1.HeldByAnnotation, v1alpha1.SuspendedByAnnotation,
				} {
					if at[key] != "" {
						at[key] = reason
					}
				}
			}
		}
	}
	because := url.Values{"because": {"kept"}, "at": {newRevision}}
	for sentence, c := range map[string]struct {
		before, meanwhile func(*parts)
		path              string
		form              url.Values
		says              string
	}{
		"another hold": {
			held, func(p *parts) {
				by(held, "carol: the fan")(p)
				p.pool.Annotations[v1alpha1.HeldRevisionAnnotation] = newRevision
			},
			"/pool/edge/release", nil, "Now it is held at main@sha1:bbbbbbbb by carol: the fan.",
		},
		"another end of the hold": {
			held, func(p *parts) { p.pool.Annotations[v1alpha1.HeldUntilAnnotation] = "2099-01-02T03:04:05Z" },
			"/pool/edge/release", nil, "Now it is held at main@sha1:aaaaaaaa until",
		},
		"another pause": {
			paused, by(paused, "carol: the fan"), "/pool/edge/resume", nil, "Now it is paused by carol: the fan.",
		},
		"a pause of another": {nil, paused, "/pool/edge/pause", because, "Now it is paused by bob: the switches."},
		"a pause and a hold": {
			nil, func(p *parts) {
				paused(p)
				held(p)
			}, "/pool/edge/pause", because,
			"Now it is paused by bob: the switches, and it is held at main@sha1:aaaaaaaa by bob: the kernel.",
		},
		"a hold of another": {nil, held, "/pool/edge/hold", because, "Now it is held at main@sha1:aaaaaaaa by bob"},
		"no hold any more, before another one": {
			held, func(p *parts) { clear(p.pool.Annotations) }, "/pool/edge/hold", because, "Now it is not held.",
		},
		"an opening": {
			shut, func(p *parts) { p.pool.Annotations[v1alpha1.OpenUntilAnnotation] = "2099-01-02T03:04:05Z" },
			"/pool/edge/resume",
			url.Values{"open-for": {"2h"}},
			"Now it is open outside of its maintenance windows until",
		},
		"a retry of the pool": {
			failed, func(p *parts) { p.pool.Annotations[v1alpha1.RetryAnnotation] = "2020-01-02T03:04:05Z" },
			"/pool/edge/retry", nil, "Now somebody requested a retry.",
		},
		"a retry of the node": {
			failed, func(p *parts) { p.node.Annotations[v1alpha1.RetryAnnotation] = "2020-01-02T03:04:05Z" },
			"/node/n1/retry", nil, "Now somebody requested a retry.",
		},
		"a suspension of another": {
			nil, suspended, "/source/os/suspend", because, "Now it is suspended by bob: the server moves.",
		},
		"another suspension": {
			suspended, by(suspended, "carol: the fan"), "/source/os/resume", nil,
			"Now it is suspended by carol: the fan.",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t, c.before)
			opened := s.open(t, c.path)
			s.change(t, c.meanwhile)
			before := s.state(t)
			r := s.send(t, c.path, opened, c.form)
			page := html.UnescapeString(r.body)
			if r.status != http.StatusConflict || !strings.Contains(page, c.says) || !strings.Contains(page,
				"changed after you had opened this form, so read it again before you send it.") {
				t.Errorf("%d, and not %q:\n%s", r.status, c.says, page)
			}
			if len(c.form["because"]) > 0 && !strings.Contains(page, `value="kept"`) {
				t.Errorf("what the user wrote is lost:\n%s", page)
			}
			if after := s.state(t); after != before || len(s.events(t)) > 0 {
				t.Fatalf("it changes\n%s to\n%s", before, after)
			}
			if r = s.send(t, c.path, hidden(t, c.path, r.body), c.form); r.status != http.StatusSeeOther ||
				s.state(t) == before {
				t.Errorf("sent again: %d\n%s", r.status, r.body)
			}
		})
	}
}

// change changes the objects as another user does; no watch tells the console.
func (s *stage) change(t *testing.T, set func(*parts)) {
	t.Helper()
	var p parts
	objects := map[string]client.Object{"edge": &p.pool, "n1": &p.node, "os": &p.source}
	for name, o := range objects {
		if err := s.Get(t.Context(), client.ObjectKey{Name: name}, o); err != nil {
			t.Fatal(err)
		}
	}
	if p.pool.Annotations == nil {
		p.pool.Annotations = map[string]string{}
	}
	set(&p)
	for _, o := range objects {
		if err := s.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAFormOutlivesAStatus: what controllers and daemons write is no reason to refuse a form, and a form whose wish is
// met meanwhile says so.
func TestAFormOutlivesAStatus(t *testing.T) {
	s := newStage(t, paused)
	opened := s.open(t, "/pool/edge/resume")
	s.change(t, func(p *parts) {
		p.pool.Annotations[v1alpha1.RolloutHistoryAnnotation] = "[]"
		p.pool.Labels = map[string]string{"a": "b"}
		p.pool.Status.MachineCount = 7
		p.pool.Spec.Configuration.Name = oldConfig
	})
	if r := s.send(t, "/pool/edge/resume", opened, nil); r.status != http.StatusSeeOther ||
		!strings.HasPrefix(s.state(t), "false") {
		t.Errorf("after a status: %d\n%s", r.status, r.body)
	}
	r := s.send(t, "/pool/edge/resume", opened, nil)
	if r.status != http.StatusSeeOther || !strings.Contains(get(t, s.browser, s.base+r.header.Get("Location")).body,
		"is not paused; nothing is changed") {
		t.Errorf("the same again: %d\n%s", r.status, r.body)
	}
	// A mistake in a field does not hide that the state has changed.
	s.change(t, paused)
	r = s.send(t, "/pool/edge/pause", opened, url.Values{"because": {""}})
	if r.status != http.StatusUnprocessableEntity || strings.Contains(r.body, "changed after you had opened") {
		t.Errorf("the state of the form: %d\n%s", r.status, r.body)
	}
	opened = s.open(t, "/pool/edge/pause")
	s.change(t, held)
	r = s.send(t, "/pool/edge/pause", opened, url.Values{"because": {""}})
	if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "Now it is held at main@sha1:aaaaaaaa") {
		t.Errorf("a mistake: %d\n%s", r.status, r.body)
	}
	opened.Del(fieldState)
	r = s.send(t, "/pool/edge/release", opened, nil)
	if r.status != http.StatusConflict || !strings.Contains(r.body, "does not say which state it showed") {
		t.Errorf("a form without its state: %d\n%s", r.status, r.body)
	}
}
