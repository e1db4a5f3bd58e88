package reconcile_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
)

const hookSecret = "the secret of this webhook"

// hooked is a world whose GitSource has a webhook, with the receiver of one replica of the controller.
type hooked struct {
	*world
	handler http.Handler
}

func newHooked(t *testing.T) *hooked {
	t.Helper()
	w := &hooked{world: newWorld(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bunsen-system",
		Name:      "hook",
	}, Data: map[string][]byte{"token": []byte(hookSecret + "\n")}})}
	w.restartReceiver()
	controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
		s.Generation = 2
		s.Spec.Webhook = &v1alpha1.Webhook{
			Type:      v1alpha1.WebhookGitHub,
			SecretRef: v1alpha1.SecretReference{Name: "hook"},
		}
	})
	w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
	w.follow()
	return w
}

func (w *hooked) restartReceiver() {
	w.handler = (&gitsource.WebhookReceiver{
		Client: w.Client, Live: w.Client, Namespace: "bunsen-system", Now: func() time.Time { return w.Now },
		After: func(d time.Duration) <-chan time.Time {
			due := make(chan time.Time, 1)
			w.Now = w.Now.Add(d)
			due <- w.Now
			return due
		},
	}).Handler()
}

// send sends a request as GitHub does, and returns the status code and the answer.
func (w *hooked) send(method, path, secret, event, body string) (int, string) {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	req := httptest.NewRequestWithContext(w.T.Context(), method, path, strings.NewReader(body))
	req.Header.Set("X-GitHub-Event", event)
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, req)
	return out.Code, strings.TrimSpace(out.Body.String())
}

// announce announces that main is at a commit, a second after the last poll.
func (w *hooked) announce(commit string) {
	w.T.Helper()
	w.Now = w.Now.Add(time.Second)
	if code, text := w.send("POST", "/hook/os", hookSecret, "push", fmt.Sprintf(`{"ref":"refs/heads/main","after":%q}`,
		commit)); code != http.StatusAccepted {
		w.T.Fatalf("%d %s", code, text)
	}
}

// secondBySecond lets the controller look each second, for a time.
func (w *hooked) secondBySecond(d time.Duration) {
	for end := w.Now.Add(d); w.Now.Before(end); w.Now = w.Now.Add(time.Second) {
		w.follow()
	}
}

// TestAnnouncedPushes: the source controller polls at once after a webhook request, and believes only the repository.
func TestAnnouncedPushes(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, w *hooked){
		"a push is applied without waiting for the interval": func(t *testing.T, w *hooked) {
			w.repo.Push("say more", controllertest.Files("worker/10-motd.bu=hello again"))
			w.follow()
			controllertest.Equal(t, "listings before the request", w.repo.Lists, 1)
			w.announce(w.repo.Head)
			w.follow()
			controllertest.Equal(t, "applied", w.GitSource().Status.AppliedRevision, w.repo.Revision())
			w.secondBySecond(50 * time.Second)
			controllertest.Equal(t, "listings in all", w.repo.Lists, 2)
		},
		"a host that lists the commit later is polled until it does": func(t *testing.T, w *hooked) {
			before := w.repo.Head
			w.repo.Push("say more", controllertest.Files("worker/10-motd.bu=hello again"))
			pushed := w.repo.Head
			w.repo.Head = before
			w.announce(pushed)
			w.secondBySecond(7 * time.Second)
			w.repo.Head = pushed
			w.secondBySecond(5 * time.Second)
			controllertest.Equal(t, "applied", w.GitSource().Status.AppliedRevision, w.repo.Revision())
		},
		"a commit that never comes costs a few listings": func(t *testing.T, w *hooked) {
			w.announce(strings.Repeat("ab", 20))
			w.secondBySecond(10 * time.Minute)
			if n := w.repo.Lists - 1; n < 15 || n > 20 { // ten of them by the interval
				t.Errorf("%d listings in ten minutes", n)
			}
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
		},
		"an announced push outlives the controller": func(t *testing.T, w *hooked) {
			w.repo.Push("say more", controllertest.Files("worker/10-motd.bu=hello again"))
			w.announce(w.repo.Head)
			w.restart()
			w.follow()
			controllertest.Equal(t, "applied", w.GitSource().Status.AppliedRevision, w.repo.Revision())
			if w.GitSource().Status.LastPush == nil {
				t.Error("the status lost the push")
			}
		},
		"two captured requests, sent again in turn, cause one listing in a second": func(t *testing.T, w *hooked) {
			other := strings.Repeat("ab", 20)
			for i := range 500 { // in ten seconds
				before := w.Now
				w.send("POST", "/hook/os", hookSecret, "push", fmt.Sprintf(`{"ref":"refs/heads/main","after":%q}`,
					[]string{w.repo.Head, other}[i%2]))
				w.Now = before.Add(20 * time.Millisecond) // The request waited until it was recorded.
				w.follow()
			}
			if n := w.repo.Lists - 1; n < 8 || n > 11 {
				t.Errorf("%d listings in ten seconds", n)
			}
		},
		"a push a moment after a poll is polled for a second later": func(t *testing.T, w *hooked) {
			w.announce(w.repo.Head)
			w.follow()
			w.repo.Push("say more", controllertest.Files("worker/10-motd.bu=hello again"))
			w.Now = w.Now.Add(300 * time.Millisecond)
			before := w.Now
			w.send("POST", "/hook/os", hookSecret, "push", fmt.Sprintf(`{"ref":"refs/heads/main","after":%q}`,
				w.repo.Head))
			w.Now = before
			if next := w.follow().RequeueAfter; next != 700*time.Millisecond || w.repo.Lists != 2 {
				t.Fatalf("%d listings, and the next one after %s", w.repo.Lists, next)
			}
			w.Now = w.Now.Add(700 * time.Millisecond)
			w.follow()
			controllertest.Equal(t, "applied", w.GitSource().Status.AppliedRevision, w.repo.Revision())
		},
		"a Secret without the key is reported, and refuses every request": func(t *testing.T, w *hooked) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "bunsen-system", Name: "hook"}}
			w.Remove(secret)
			w.Create(&corev1.Secret{ObjectMeta: secret.ObjectMeta, Data: map[string][]byte{"token": []byte("short")}})
			w.restartReceiver()
			w.follow()
			controllertest.Contains(t, "warnings", strings.Join(w.GitSource().Status.Warnings, "\n"),
				`every request of the webhook is refused: reading Secret bunsen-system/hook: its key "token" has 5 bytes: use at least 16`)
			code, _ := w.send("POST", "/hook/os", "short", "push", `{"ref":"refs/heads/main"}`)
			controllertest.Equal(t, "status code", code, http.StatusUnauthorized)
		},
		"a new secret counts at once": func(t *testing.T, w *hooked) {
			w.announce(w.repo.Head)
			w.Now = w.Now.Add(2 * time.Second)
			meta := metav1.ObjectMeta{Namespace: "bunsen-system", Name: "hook"}
			w.Remove(&corev1.Secret{ObjectMeta: meta})
			w.Create(&corev1.Secret{
				ObjectMeta: meta,
				Data:       map[string][]byte{"token": []byte("another secret of this webhook")},
			})
			code, _ := w.send("POST", "/hook/os", "another secret of this webhook", "push", `{"ref":"refs/heads/main"}`)
			controllertest.Equal(t, "status code", code, http.StatusAccepted)
			code, _ = w.send("POST", "/hook/os", hookSecret, "push", `{"ref":"refs/heads/main"}`)
			controllertest.Equal(t, "status code with the old one", code, http.StatusUnauthorized)
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, newHooked(t)) })
	}
}

// panicking is a body that a library cannot take.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("a library") }

// TestAPanicTakesNoSlot: requests that panic, more than the receiver reads at a time, leave it open to the next one.
func TestAPanicTakesNoSlot(t *testing.T) {
	w := newHooked(t)
	handler := (&gitsource.WebhookReceiver{
		Client: w.Client, Live: w.Client, Namespace: "bunsen-system", Now: time.Now, After: time.After,
	}).Handler()
	for range 20 {
		func() {
			defer func() {
				if recover() == nil {
					t.Fatal("the request does not panic")
				}
			}()
			handler.ServeHTTP(httptest.NewRecorder(),
				httptest.NewRequestWithContext(t.Context(), "POST", "/hook/os", panicking{}))
		}()
	}
	out := httptest.NewRecorder()
	handler.ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), "POST", "/hook/os", strings.NewReader("")))
	if out.Code != http.StatusUnauthorized {
		t.Errorf("the next request is answered with %d: %s", out.Code, out.Body)
	}
}

// TestManyRequestsAtATime: 500 requests in a moment, of three kinds, write the status twice, and each is answered after
// the second write. So none is lost.
func TestManyRequestsAtATime(t *testing.T) {
	for name, bodies := range map[string][]string{
		"one request again":        {`{"ref":"refs/heads/main","commit":"0123456789abcdef0123456789abcdef01234567"}`},
		"two requests in turn":     {`{"ref":"refs/heads/main"}`, `{"commit":"0123456789abcdef0123456789abcdef01234567"}`},
		"requests without a body":  {""},
		"a push and empty bodies":  {"", `{"ref":"refs/heads/main","commit":"0123456789abcdef0123456789abcdef01234567"}`},
		"requests for another ref": {`{"ref":"refs/tags/v1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHooked(t)
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
				s.Spec.Webhook.Type = v1alpha1.WebhookGeneric
			})
			var writes atomic.Int64
			counting := interceptor.NewClient(w.Client, interceptor.Funcs{SubResourcePatch: func(ctx context.Context,
				c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
			) error {
				writes.Add(1)
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}})
			send := func(handler http.Handler, body string) int {
				mac := hmac.New(sha256.New, []byte(hookSecret))
				mac.Write([]byte(body))
				req := httptest.NewRequestWithContext(context.Background(), "POST", "/hook/os", strings.NewReader(body))
				req.Header.Set("X-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
				out := httptest.NewRecorder()
				handler.ServeHTTP(out, req)
				return out.Code
			}
			wanted, expected := int64(2), http.StatusAccepted
			if name == "requests for another ref" {
				wanted, expected = 0, http.StatusOK
			}
			synctest.Test(t, func(t *testing.T) {
				handler := (&gitsource.WebhookReceiver{
					Client: counting, Live: w.Client, Namespace: "bunsen-system", Now: time.Now, After: time.After,
				}).Handler()
				if code := send(handler, bodies[0]); code != expected {
					t.Fatalf("the first answer is %d", code)
				}
				began := time.Now()
				for i := range 500 {
					go func() {
						code := send(handler, bodies[i%len(bodies)])
						for code == http.StatusServiceUnavailable { // more than 16 at a time
							runtime.Gosched()
							code = send(handler, bodies[i%len(bodies)])
						}
						if code != expected {
							t.Errorf("an answer is %d", code)
						}
						if got := writes.Load(); got != wanted {
							t.Errorf("an answer after %d writes of the status, want %d", got, wanted)
						}
					}()
				}
				time.Sleep(10 * time.Second)
				if since := time.Since(began); writes.Load() != wanted {
					t.Errorf("%d writes of the status in %s", writes.Load(), since)
				}
			})
			if last := w.GitSource().Status.LastPush; wanted > 0 && strings.Contains(strings.Join(bodies, ""),
				"0123") &&
				last.Commit != "0123456789abcdef0123456789abcdef01234567" {
				t.Errorf("the status has lost the commit: %v", last)
			}
		})
	}
}

// TestWebhookRequests: what the receiver answers, and that it writes only for a signed push of the followed ref.
func TestWebhookRequests(t *testing.T) {
	push := `{"ref":"refs/heads/main","after":"0123456789abcdef0123456789abcdef01234567"}`
	const stranger = "401 the request is not signed with the secret of a webhook of this name"
	for name, test := range map[string]struct {
		method, path, secret, event, body string
		want                              string
		written                           bool
	}{
		"a signed push":                       {"POST", "/hook/os", hookSecret, "push", push, "202 the controller polls the repository", true},
		"a ping":                              {"POST", "/hook/os", hookSecret, "ping", `{"zen":"…"}`, "200 nothing to do: the request announces no push of the ref that this GitSource follows", false},
		"a push of a tag":                     {"POST", "/hook/os", hookSecret, "push", `{"ref":"refs/tags/v1"}`, "200 nothing to do", false},
		"another secret":                      {"POST", "/hook/os", "some other secret, long enough", "push", push, stranger, false},
		"a GitSource that does not exist":     {"POST", "/hook/none", hookSecret, "push", push, stranger, false},
		"a GitSource without a webhook":       {"POST", "/hook/plain", hookSecret, "push", push, stranger, false},
		"a signed body that is not JSON":      {"POST", "/hook/os", hookSecret, "push", "hello", "400 reading the request: invalid character", false},
		"a body of more than 3 MiB":           {"POST", "/hook/os", hookSecret, "push", strings.Repeat(" ", 3<<20+1), "413 the body has more than 3 MiB: the next poll finds the push", false},
		"a GET":                               {"GET", "/hook/os", hookSecret, "push", push, "405 Method Not Allowed", false},
		"a path that goes up":                 {"POST", "/hook/../os", hookSecret, "push", push, "307", false},
		"a path below":                        {"POST", "/hook/os/x", hookSecret, "push", push, "404 404 page not found", false},
		"a name that is no name of an object": {"POST", "/hook/%2e%2e%2fsecrets", hookSecret, "push", push, stranger, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHooked(t)
			w.Create(&v1alpha1.GitSource{
				ObjectMeta: metav1.ObjectMeta{Name: "plain"},
				Spec:       v1alpha1.GitSourceSpec{URL: "https://git.example.com/plain"},
			})
			code, text := w.send(test.method, test.path, test.secret, test.event, test.body)
			controllertest.Contains(t, "answer", fmt.Sprintf("%d %s", code, text), test.want)
			if written := w.GitSource().Status.LastPush != nil; written != test.written {
				t.Errorf("written: %v, want %v", written, test.written)
			}
		})
	}
}
