package notify_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/internal/forge/forgetest"

	"github.com/bunsen-os/bunsen/reconcile/notify"
)

const namespace, name = "bunsen-notifications", "n"

// world is a cluster in memory with one Notification, one source and the pool worker.
type world struct {
	client.Client
	t   *testing.T
	now time.Time
	c   *notify.Controller
}

func newWorld(t *testing.T, spec v1alpha1.NotificationSpec, secret map[string]string, url string) *world {
	t.Helper()
	scheme, err := notify.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	spec.Cluster, spec.SecretRef.Name = "prod", "s"
	n := &v1alpha1.Notification{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: spec}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Data: map[string][]byte{}}
	for k, v := range secret {
		s.Data[k] = []byte(v)
	}
	src := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Spec: v1alpha1.GitSourceSpec{URL: url}}
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	w := &world{t: t, now: time.Now().UTC().Truncate(time.Second)}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(n, s, src, pool).WithStatusSubresource(n, src,
		pool).Build()
	w.restart()
	return w
}

func (w *world) restart() {
	w.c = &notify.Controller{
		Client: w.Client, Live: w.Client, Open: openHost, Namespace: namespace,
		Pace: time.Minute, Now: func() time.Time { return w.now },
	}
}

func openHost(t forge.Target, c *http.Client) (notify.Service, error) {
	switch t.Kind {
	case forge.GitHub:
		return forge.NewGitHub(t, c)
	case forge.GitLab:
		return forge.NewGitLab(t, c)
	default:
		return forge.NewGitea(t, c)
	}
}

// rollout sets how far the commit Head is.
func (w *world) rollout(updated int32) {
	w.t.Helper()
	var src v1alpha1.GitSource
	var pool mcfgv1.MachineConfigPool
	w.get(&src, "config")
	w.get(&pool, "worker")
	revision := "main@sha1:" + forgetest.Head
	src.Status = v1alpha1.GitSourceStatus{
		ObservedRevision: revision, AppliedRevision: revision,
		History: []v1alpha1.HistoryEntry{{CommitInfo: v1alpha1.CommitInfo{
			Revision: revision,
			Subject:  "<!channel> hello",
		}, Pools: map[string]string{"worker": "rendered-worker-b"}}},
	}
	w.must(w.Status().Update(context.Background(), &src))
	record := v1alpha1.RolloutRecord{
		Config: "rendered-worker-b", Began: metav1.NewTime(w.now.Add(-time.Minute)),
		Requester: v1alpha1.Requester{Revision: revision, Subject: "<!channel> hello"},
	}
	if updated == 40 {
		at := metav1.NewTime(w.now)
		record.Ended = &at
	}
	pool.Spec.Configuration.Name = "rendered-worker-b"
	pool.Annotations = map[string]string{v1alpha1.RolloutAnnotation: record.String()}
	w.must(w.Update(context.Background(), &pool))
	pool.Status.MachineCount, pool.Status.UpdatedMachineCount, pool.Status.ObservedGeneration = 40, updated,
		pool.Generation
	w.must(w.Status().Update(context.Background(), &pool))
}

func (w *world) get(o client.Object, name string) {
	w.t.Helper()
	w.must(w.Get(context.Background(), client.ObjectKey{Name: name}, o))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// reconcile makes one attempt, and returns the wait and the condition Ready.
func (w *world) reconcile() (time.Duration, metav1.Condition) {
	w.t.Helper()
	result, err := w.c.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	w.must(err)
	var n v1alpha1.Notification
	w.get(&n, name)
	c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ReadyCondition)
	if c == nil {
		w.t.Fatal("no condition Ready")
	}
	return result.RequeueAfter, *c
}

func gitHost(t *testing.T, kind forge.Kind) (*forgetest.Pull, *world) {
	t.Helper()
	r := &forgetest.Pull{Kind: kind, Self: "bunsen-bot", Merged: true}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	types := map[forge.Kind]v1alpha1.NotificationType{
		forge.GitHub: v1alpha1.NotifyGitHub,
		forge.GitLab: v1alpha1.NotifyGitLab, forge.Gitea: v1alpha1.NotifyGitea,
	}
	secret := map[string]string{"hosts": strings.TrimPrefix(server.URL, "http://"), "token": forgetest.Token}
	if kind != forge.Gitea {
		secret["address"] = r.Target(server.URL).API
	}
	url := server.URL + "/" + forgetest.Project + ".git"
	return r, newWorld(t, v1alpha1.NotificationSpec{Type: types[kind]}, secret, url)
}

// TestAGitHostGetsEachStatusOnce: statuses follow the rollout, the comment is edited once, and a restart repeats
// nothing.
func TestAGitHostGetsEachStatusOnce(t *testing.T) {
	for _, kind := range []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea} {
		t.Run(string(kind), func(t *testing.T) {
			r, w := gitHost(t, kind)
			r.Comments = []forge.Comment{
				{ID: 1, Author: "ci", Body: "<!-- bunsen:plan:v1:prod -->\n" +
					"| `worker` | `a` → `b` | | | | drain + **reboot** | 40 | **40** | up to 2 h |\n"},
				{ID: 2, Author: "mallory", Body: "<!-- bunsen:outcome:v1:prod/config -->\nmine"},
			}
			states := func() string {
				var out []string
				for _, s := range r.Statuses {
					out = append(out, strings.TrimPrefix(s.Context, "bunsen/prod/config/")+" "+string(s.State)+" "+
						s.Description)
				}
				return strings.Join(out, "; ")
			}
			for _, step := range []struct {
				updated int32
				wait    time.Duration
				restart bool
				want    string
			}{
				{17, 0, false, "render success 1 pool rendered; rollout pending 17/40 nodes updated"},
				{18, time.Second, false, "render success 1 pool rendered; rollout pending 17/40 nodes updated"},
				{18, time.Minute, false, "render success 1 pool rendered; rollout pending 17/40 nodes updated; rollout pending 18/40 nodes updated"},
				{18, time.Minute, true, "render success 1 pool rendered; rollout pending 17/40 nodes updated; rollout pending 18/40 nodes updated"},
				{40, 2 * time.Minute, false, "render success 1 pool rendered; rollout pending 17/40 nodes updated; rollout pending 18/40 nodes updated; rollout success 40/40 nodes updated"},
				{40, time.Hour, true, "render success 1 pool rendered; rollout pending 17/40 nodes updated; rollout pending 18/40 nodes updated; rollout success 40/40 nodes updated"},
			} {
				w.now = w.now.Add(step.wait)
				w.rollout(step.updated)
				if step.restart {
					w.restart()
				}
				wait, ready := w.reconcile()
				if kind == forge.GitLab { // it keeps the description of a running status
					step.want = strings.Replace(step.want, "; rollout pending 18/40 nodes updated", "", 1)
				}
				if got := states(); got != step.want || ready.Status != metav1.ConditionTrue {
					t.Fatalf("after %d nodes the git host has\n%s\nwant\n%s\nReady: %s", step.updated, got, step.want,
						ready.Message)
				}
				if step.wait == time.Second && wait != 59*time.Second {
					t.Errorf("it waits %s for the next status", wait)
				}
			}
			if len(r.Comments) != 3 || r.Comments[1].Body != "<!-- bunsen:outcome:v1:prod/config -->\nmine" {
				t.Fatalf("comments: %+v", r.Comments)
			}
			if body := r.Comments[2].Body; !strings.Contains(body, "| Reboots | 40 | 0 |") ||
				!strings.Contains(body, "**Rolled out.**") || !strings.Contains(body, "review by `ci`") {
				t.Errorf("the comment is\n%s", body)
			}
			edits := 0
			for _, l := range r.Log {
				if strings.HasPrefix(l, http.MethodPatch) || strings.HasPrefix(l, http.MethodPut) {
					edits++
				}
			}
			if edits != 1 {
				t.Errorf("the comment was edited %d times, want once:\n%s", edits, strings.Join(r.Log, "\n"))
			}
		})
	}
}

// TestAGitHostThatDoesNotAnswerGetsNothingTwice loses the answer to each change, in turn. The next attempt reads what
// the commit has.
func TestAGitHostThatDoesNotAnswerGetsNothingTwice(t *testing.T) {
	for _, kind := range []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea} {
		t.Run(string(kind), func(t *testing.T) {
			for k := 1; ; k++ {
				r, w := gitHost(t, kind)
				r.Lose = func(n int) bool { return n == k }
				w.rollout(17)
				for range 3 {
					w.reconcile()
					w.now = w.now.Add(10 * time.Second)
				}
				seen := map[forge.Status]bool{}
				for _, s := range r.Statuses {
					if seen[s] {
						t.Errorf("without an answer to change %d, this status was set twice: %+v", k, s)
					}
					seen[s] = true
				}
				if len(r.Statuses) != 2 || len(r.Comments) != 1 {
					t.Errorf("without an answer to change %d: %d comments, and the statuses %+v", k, len(r.Comments),
						r.Statuses)
				}
				if len(r.Log) < k {
					return
				}
			}
		})
	}
}

// TestATokenGoesOnlyToItsHosts: not to other hosts, not over plain http, not along a redirect, and into no message.
func TestATokenGoesOnlyToItsHosts(t *testing.T) {
	var thief, redirect *httptest.Server
	stolen := 0
	thief = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen++ }))
	defer thief.Close()
	redirect = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, thief.URL+q.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer redirect.Close()
	host := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	const token = "hunter2-hunter2-hunter2"
	for sentence, tc := range map[string]struct {
		kind   v1alpha1.NotificationType
		secret map[string]string
		url    string
		want   string
	}{
		"an address of another host":     {v1alpha1.NotifyWebhook, map[string]string{"hosts": "example.org", "address": thief.URL + "/" + token, "token": token}, "", `does not list ` + host(thief)},
		"no hosts":                       {v1alpha1.NotifyWebhook, map[string]string{"address": thief.URL, "token": token}, "", `the key "hosts" is missing`},
		"a port that is not named":       {v1alpha1.NotifyWebhook, map[string]string{"hosts": "127.0.0.1", "address": thief.URL, "token": token}, "", `does not list ` + host(thief)},
		"plain http":                     {v1alpha1.NotifySlack, map[string]string{"hosts": "hooks.example.org:80", "address": "http://hooks.example.org/" + token}, "", "sends nothing over http://"},
		"a redirect of a webhook":        {v1alpha1.NotifyWebhook, map[string]string{"hosts": host(redirect), "address": redirect.URL, "token": token}, "", "follows no redirect"},
		"a redirect of a git host":       {v1alpha1.NotifyGitea, map[string]string{"hosts": host(redirect), "token": token}, redirect.URL + "/a/b", "follows no redirect"},
		"a source on another git host":   {v1alpha1.NotifyGitea, map[string]string{"hosts": host(redirect), "token": token}, thief.URL + "/a/b", "the repository is not on this git host"},
		"an address with a password":     {v1alpha1.NotifyWebhook, map[string]string{"hosts": "x.example.org", "address": "https://u:" + token + "@x.example.org", "token": token}, "", `the key "address" is not a URL`},
		"a weak key":                     {v1alpha1.NotifyWebhook, map[string]string{"hosts": "x.example.org", "address": "https://x.example.org", "token": "abc"}, "", "fewer than 16 bytes"},
		"an unknown key":                 {v1alpha1.NotifySlack, map[string]string{"hosts": "x.example.org", "address": "https://x.example.org", "tokn": token}, "", `the key "tokn" is not used for type Slack`},
		"an address that does not exist": {v1alpha1.NotifySlack, map[string]string{"hosts": "127.0.0.1:1", "address": "http://127.0.0.1:1/" + token}, "", "sending the message about"},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := v1alpha1.NotificationSpec{Type: tc.kind}
			if tc.url != "" {
				spec.Sources = []string{"config"}
			}
			w := newWorld(t, spec, tc.secret, tc.url)
			w.rollout(40)
			_, ready := w.reconcile()
			if ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, tc.want) {
				t.Errorf("Ready is %s: %s; want %q", ready.Status, ready.Message, tc.want)
			}
			if strings.Contains(ready.Message, token) {
				t.Errorf("the message has the token: %s", ready.Message)
			}
		})
	}
	if stolen > 0 {
		t.Errorf("another host got %d requests", stolen)
	}
}

// TestASlowReceiverDelaysNoOther: while one receiver does not answer, another one gets its messages.
func TestASlowReceiverDelaysNoOther(t *testing.T) {
	asked, release := make(chan struct{}, 8), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer slow.Close()
	r := &recorder{}
	fast := httptest.NewServer(r)
	defer fast.Close()
	w := newWorld(t, v1alpha1.NotificationSpec{Type: v1alpha1.NotifySlack},
		map[string]string{"hosts": strings.TrimPrefix(slow.URL, "http://"), "address": slow.URL}, "")
	w.must(w.Create(t.Context(), &v1alpha1.Notification{
		ObjectMeta: metav1.ObjectMeta{Name: "fast", Generation: 1},
		Spec: v1alpha1.NotificationSpec{
			Type: v1alpha1.NotifySlack, Cluster: "prod",
			SecretRef: v1alpha1.NotificationSecretReference{Name: "fast"},
		},
	}))
	w.must(w.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fast"},
		Data: map[string][]byte{
			"hosts":   []byte(strings.TrimPrefix(fast.URL, "http://")),
			"address": []byte(fast.URL),
		},
	}))
	w.rollout(40)
	done := make(chan error, 1)
	go func() {
		_, err := w.c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		done <- err
	}()
	<-asked
	if _, err := w.c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fast"}}); err != nil ||
		len(r.got) != 2 {
		t.Errorf("the other receiver got %d messages, %v", len(r.got), err)
	}
	close(release)
	w.must(<-done)
}

type request struct {
	method, path string
	header       http.Header
	body         []byte
}

// recorder answers with the codes in order, then 200.
type recorder struct {
	mu    sync.Mutex
	codes []int
	got   []request
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body) // a test notices a short body
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, request{q.Method, q.URL.EscapedPath(), q.Header, body})
	if len(r.codes) > 0 {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(r.codes[0])
		r.codes = r.codes[1:]
	}
}

// TestMessages: each receiver gets the documented request.
func TestMessages(t *testing.T) {
	const token = "0123456789abcdef0123"
	for kind, check := range map[v1alpha1.NotificationType]func(request) string{
		v1alpha1.NotifySlack: func(q request) string {
			if q.method != "POST" || q.path != "/services/T/B/x" || !strings.Contains(string(q.body),
				`\u0026lt;!channel\u0026gt;`) {
				return "want an escaped text at the address"
			}
			return ""
		},
		v1alpha1.NotifyMatrix: func(q request) string {
			if q.method != "PUT" ||
				!strings.HasPrefix(q.path,
					"/services/T/B/x/_matrix/client/v3/rooms/%21r:example.org/send/m.room.message/bunsen-") ||
				q.header.Get("Authorization") != "Bearer "+token || !strings.Contains(string(q.body),
				`"msgtype":"m.notice"`) || !strings.Contains(string(q.body), `"m.mentions":{}`) {
				return "want a notice in the room that mentions nobody"
			}
			return ""
		},
		v1alpha1.NotifyWebhook: func(q request) string {
			mac := hmac.New(sha256.New, []byte(token))
			mac.Write(q.body)
			if q.header.Get("X-Signature") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
				return "want the signature of the body"
			}
			return ""
		},
		v1alpha1.NotifyCloudEvents: func(q request) string {
			var e map[string]any
			if err := json.Unmarshal(q.body, &e); err != nil || e["specversion"] != "1.0" || e["id"] == "" ||
				e["source"] != "/bunsen/prod" || !strings.HasPrefix(fmt.Sprint(e["type"]), "dev.bunsen.") ||
				!strings.HasPrefix(q.header.Get("Content-Type"), "application/cloudevents+json") {
				return "want a structured CloudEvent"
			}
			return ""
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			r := &recorder{codes: []int{http.StatusTooManyRequests}}
			server := httptest.NewServer(r)
			defer server.Close()
			secret := map[string]string{"hosts": strings.TrimPrefix(server.URL, "http://"), "address": server.URL +
				"/services/T/B/x"}
			if kind != v1alpha1.NotifySlack {
				secret["token"] = token
			}
			if kind == v1alpha1.NotifyMatrix {
				secret["room"] = "!r:example.org"
			}
			w := newWorld(t, v1alpha1.NotificationSpec{Type: kind}, secret, "")
			w.rollout(17)
			if wait, ready := w.reconcile(); wait != 2*time.Minute || ready.Reason != v1alpha1.ReasonDeliveryFailed ||
				strings.Contains(ready.Message, "/services") {
				t.Fatalf("after a 429 with Retry-After it waits %s, Ready: %s", wait, ready.Message)
			}
			w.now = w.now.Add(time.Minute)
			if w.reconcile(); len(r.got) != 1 {
				t.Fatal("it does not wait for Retry-After")
			}
			w.now = w.now.Add(time.Minute)
			if _, ready := w.reconcile(); ready.Status != metav1.ConditionTrue || len(r.got) != 3 {
				t.Fatalf("%d requests, Ready: %s", len(r.got), ready.Message)
			}
			if problem := check(r.got[1]); problem != "" {
				t.Errorf("%s: %s %s %v\n%s", problem, r.got[1].method, r.got[1].path, r.got[1].header, r.got[1].body)
			}
			w.restart()
			if w.reconcile(); len(r.got) != 3 {
				t.Errorf("a restart repeated a message")
			}
			w.now = w.now.Add(time.Minute)
			w.rollout(40)
			if w.reconcile(); len(r.got) != 4 {
				t.Errorf("%d requests after the end of the rollout", len(r.got))
			}
		})
	}
}
