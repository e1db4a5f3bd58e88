package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// WebhookReceiver serves POST /hook/NAME for the GitSources with a webhook. Each replica of the controller runs
// one: it only writes a status, and the source controller of the leader polls the repository after this write.
//
// Reads: GitSource, Secret
// Writes: GitSource.status.lastPush
type WebhookReceiver struct {
	// Client reads GitSources from the manager's cache and writes their status.
	Client client.Client
	// Live reads Secrets from the API server, so that the process stores no Secret in its cache.
	Live client.Reader
	// Namespace is the namespace of the Secrets.
	Namespace string
	// Address is the address to listen on, `:9292`.
	Address string
	// Now is the clock, and After waits for a duration on it.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Requests counts the requests by their result. Requests may be nil.
	Requests *prometheus.CounterVec

	tokens sync.Map // GitSource name → cachedToken
	merged announcements
	slots  chan struct{}
	once   sync.Once
}

// NewWebhookRequests returns the counter for WebhookReceiver.Requests, and registers it.
func NewWebhookRequests(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bunsen_webhook_requests_total", Help: "Webhook requests of git hosts by result: accepted, ignored, " +
			"refused (not signed with the token), invalid, failed.",
	}, []string{"result"})
	err := registry.Register(requests)
	var earlier prometheus.AlreadyRegisteredError
	if errors.As(err, &earlier) {
		if c, ok := earlier.ExistingCollector.(*prometheus.CounterVec); ok {
			return c, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return requests, nil
}

const (
	// maxRequests is how many requests the receiver reads at a time. Each request may use memory for a whole body.
	maxRequests = 16
	// maxTokenAge is how long the receiver uses a secret without reading it again. A request whose signature does not
	// match makes the receiver read the secret again, at most once per minTokenAge.
	maxTokenAge, minTokenAge = 10 * time.Second, time.Second
	// maxWrite is the longest time that reading the Secret and writing the status may take.
	maxWrite = 8 * time.Second
)

// NeedLeaderElection returns false, because every replica of the controller receives webhook requests.
func (r *WebhookReceiver) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (r *WebhookReceiver) Start(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", r.Address)
	if err != nil {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	server := &http.Server{
		Handler: r.Handler(), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second,
		IdleTimeout: time.Minute,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving webhooks on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("stopping to serve webhooks: %w", err), server.Close())
	}
	return nil
}

// Handler serves the requests.
func (r *WebhookReceiver) Handler() http.Handler {
	r.once.Do(func() { r.slots = make(chan struct{}, maxRequests) })
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hook/{name}", func(w http.ResponseWriter, req *http.Request) {
		select {
		case r.slots <- struct{}{}:
		default:
			r.answer(w, result{http.StatusServiceUnavailable, "failed", "too many requests at a time: send it " +
				"again later"})
			return
		}
		out, announced := r.receiveInSlot(w, req)
		if announced != nil {
			out = r.announce(req.Context(), req.PathValue("name"), *announced)
		}
		r.answer(w, out)
	})
	return mux
}

// result is the answer to a request, and the name of this result in the metric.
type result struct {
	status       int
	metric, text string
}

// refused is the answer to every request without a valid signature. The response does not say whether the GitSource
// exists, has a webhook, or has a usable Secret.
var refused = result{http.StatusUnauthorized, "refused", "the request is not signed with the secret of a webhook of " +
	"this name"}

func (r *WebhookReceiver) answer(w http.ResponseWriter, out result) {
	if r.Requests != nil {
		r.Requests.WithLabelValues(out.metric).Inc()
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(out.status)
	_, _ = io.WriteString(w, out.text+"\n") // An error is ignored, because a client that is gone needs no answer.
}

// receiveInSlot is receive, and gives the slot back, also after a panic. What follows needs no memory for a body, and
// may take a second.
func (r *WebhookReceiver) receiveInSlot(w http.ResponseWriter, req *http.Request) (result, *PushedRef) {
	defer func() { <-r.slots }()
	return r.receive(w, req)
}

// receive reads one request. It returns the push that the request announces, or otherwise the answer.
func (r *WebhookReceiver) receive(w http.ResponseWriter, req *http.Request) (result, *PushedRef) {
	name := req.PathValue("name")
	var src v1alpha1.GitSource
	err := r.Client.Get(req.Context(), client.ObjectKey{Name: name}, &src)
	switch {
	case apierrors.IsNotFound(err) || err == nil && src.Spec.Webhook == nil:
		return refused, nil
	case err != nil:
		return failed(name, err), nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, MaxWebhookBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return result{
			http.StatusRequestEntityTooLarge, "invalid",
			fmt.Sprintf("the body has more than %d MiB: the next poll finds the push", MaxWebhookBody>>20),
		}, nil
	case err != nil:
		return result{http.StatusBadRequest, "invalid", "the body did not arrive completely"}, nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), maxWrite)
	defer cancel()
	if signed, err := r.isSigned(ctx, &src, req.Header.Get, body); err != nil {
		return failed(name, err), nil
	} else if !signed {
		return refused, nil
	}
	changes, err := ReadWebhook(src.Spec.Webhook.Type, req.Header.Get, body)
	if err != nil {
		return result{http.StatusBadRequest, "invalid", err.Error()}, nil
	}
	change := RelevantRefs(changes, src.Spec.Ref)
	if change == nil {
		return result{http.StatusOK, "ignored", "nothing to do: the request announces no push of the ref that this " +
			"GitSource follows"}, nil
	}
	return result{}, change
}

// failed logs an error of the cluster. The answer does not contain the error, because any client may read the answer.
func failed(source string, err error) result {
	ctrl.Log.WithName("webhook").Error(err, "a webhook request failed", "source", source)
	return result{http.StatusServiceUnavailable, "failed", "the cluster does not answer: send it again later"}
}

// announce records a push, and returns the answer to its request. It records at most one push of a source in a second;
// pushes that arrive in between are recorded together.
func (r *WebhookReceiver) announce(ctx context.Context, name string, change PushedRef) result {
	w, delay, isFirst := r.merged.add(name, change, r.Now())
	if isFirst {
		// A client that disconnects does not end it: other requests wait for it.
		go r.recordLater(context.WithoutCancel(ctx), name, w, delay)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return failed(name, ctx.Err())
	}
	if w.err != nil {
		return failed(name, w.err)
	}
	return result{http.StatusAccepted, "accepted", "the controller polls the repository"}
}

// recordLater writes merged pushes to the status after a delay.
func (r *WebhookReceiver) recordLater(ctx context.Context, name string, w *waiting, delay time.Duration) {
	if delay > 0 {
		<-r.After(delay)
	}
	ctx, cancel := context.WithTimeout(ctx, maxWrite)
	defer cancel()
	defer close(w.done)
	defer fault.Recover(&w.err) // One source must not end the receiver of all.
	w.err = r.record(ctx, name, r.merged.take(name, r.Now()))
}

// record writes the push to the status. The source controller polls the repository after this change.
func (r *WebhookReceiver) record(ctx context.Context, name string, change PushedRef) error {
	var src v1alpha1.GitSource
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &src); err != nil {
		return fmt.Errorf("reading GitSource %q: %w", name, err)
	}
	before := src.DeepCopy()
	src.Status.LastPush = &v1alpha1.AnnouncedPush{
		Received: metav1.NewMicroTime(r.Now().UTC()), Ref: change.Ref,
		Commit: change.Commit,
	}
	if err := r.Client.Status().Patch(ctx, &src, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the status of GitSource %q: %w", name, err)
	}
	return nil
}

// cachedToken is the secret of a webhook, and when it was read; nil if the Secret cannot be used.
type cachedToken struct {
	token  []byte
	secret string
	read   time.Time
}

// isSigned reports whether a request is signed with the secret of the webhook.
func (r *WebhookReceiver) isSigned(ctx context.Context, src *v1alpha1.GitSource, header func(string) string,
	body []byte,
) (bool, error) {
	hook, now := src.Spec.Webhook, r.Now()
	v, _ := r.tokens.Load(src.Name)
	cached, _ := v.(cachedToken)
	current := cached.secret == hook.SecretRef.Name
	if current && now.Sub(cached.read) < maxTokenAge && VerifyWebhook(hook.Type, cached.token, header, body) == nil {
		return true, nil
	}
	if current && now.Sub(cached.read) < minTokenAge {
		return false, nil
	}
	var s corev1.Secret
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: hook.SecretRef.Name},
		&s); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Secret %s/%s: %w", r.Namespace, hook.SecretRef.Name, err)
	}
	// The source controller reports an unusable Secret. With a nil token, no signature is valid.
	token, _ := WebhookToken(s.Data)
	r.tokens.Store(src.Name, cachedToken{token, hook.SecretRef.Name, now})
	return VerifyWebhook(hook.Type, token, header, body) == nil, nil
}
