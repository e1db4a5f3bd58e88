package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/mcd/report"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// heartbeatManager is the field manager of the daemon's heartbeat. heartbeatManager differs from statusManager, because
// writes of the status with the same manager would remove the heartbeat.
const heartbeatManager = "machine-config-daemon"

// Heartbeat reports about once a minute, until the context ends, that the daemon runs. The report is on the node's
// MachineConfigNode. The caller sets the version and the form in the report. Heartbeat adds the time, the daemon's
// config source, its read permissions, and the state of etcd, unless the function etcd is nil. Heartbeat returns at
// once. The StatusPublisher creates the MachineConfigNode. If the object does not exist, or the API server does not
// answer, Heartbeat retries with pauses of up to a minute. A rejected write is logged once.
func Heartbeat(ctx context.Context, cluster *Connection, r v1alpha1.DaemonReport,
	etcd func(context.Context) *v1alpha1.EtcdReport, log *slog.Logger,
) {
	go func() {
		next, refused, may := newBackoff(), "", access{}
		for ctx.Err() == nil {
			may.update(ctx, cluster)
			if etcd != nil {
				r.Etcd = etcd(ctx)
			}
			r.Seen, r.ConfigsFrom, r.ReadsAllConfigs = metav1.NewTime(time.Now()), cluster.configs.lastSource(),
				may.readsAll
			err := writeHeartbeat(ctx, cluster, r)
			if err == nil {
				next, refused = newBackoff(), ""
				sleep(ctx, v1alpha1.DaemonReportsEvery+rand.N(v1alpha1.DaemonReportsEvery/4))
				continue
			}
			if isForbidden(err) && err.Error() != refused && ctx.Err() == nil {
				refused = err.Error()
				log.Warn("cannot write the heartbeat; continuing", "err", err)
			}
			sleep(ctx, next.Step())
		}
	}()
}

// writeHeartbeat writes one heartbeat.
func writeHeartbeat(ctx context.Context, cluster *Connection, r v1alpha1.DaemonReport) error {
	patch, err := json.Marshal(
		map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{v1alpha1.DaemonAnnotation: r.String()}},
		})
	if err != nil {
		return fmt.Errorf("writing the heartbeat: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err = withClient(cluster, func(k *Client) (struct{}, error) {
		_, err := k.objects.Resource(machineConfigNodes).Patch(ctx, k.node, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: heartbeatManager})
		return struct{}{}, markUnreachable(err)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the heartbeat to MachineConfigNode %s: %w", cluster.lastName(), err)
	}
	return err
}

// newBackoff returns the pauses between attempts while the API server does not answer. The pauses grow from a second to
// a minute. A random part keeps many nodes from sending requests at once after an outage.
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.25, Steps: 10, Cap: time.Minute}
}

// sleep waits for a duration, or until the context ends.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

var machineConfigNodes = mcfgv1.GroupVersion.WithResource("machineconfignodes")

const (
	// statusManager is the field manager that the original machine-config-operator uses for these objects.
	statusManager = "machine-config-operator"
	// statusInterval is the pause between two writes. A status that is replaced during this pause is not written.
	statusInterval = time.Second
	// missingKindInterval is the pause before the next attempt if the cluster does not have the kind
	// MachineConfigNode.
	missingKindInterval = time.Hour
)

// StatusPublisher is the agent's StatusPublisher over the Kubernetes API: it writes the MachineConfigNode of one node.
// StatusPublisher writes only the newest status, and only if it differs. While the API server does not answer,
// StatusPublisher retries with pauses that grow to a minute. StatusPublisher logs a rejected write once, and repeats
// the write with the next status. If the cluster does not have the kind MachineConfigNode, the next attempt follows
// after missingKindInterval.
type StatusPublisher struct {
	cluster *Connection
	log     *slog.Logger
	wake    chan struct{}

	mu      sync.Mutex
	pending *report.Status

	// Only the method run uses the field stored and the fields after it. stored is the object of the API server; nil if
	// it is unknown. retryAt is when the publisher tries again on a cluster without the kind MachineConfigNode.
	// lastError is the last error that was logged.
	stored    *mcfgv1.MachineConfigNode
	retryAt   time.Time
	lastError string
}

// NewStatusPublisher returns a StatusPublisher that writes the published status until the context ends.
func NewStatusPublisher(ctx context.Context, cluster *Connection, log *slog.Logger) *StatusPublisher {
	b := &StatusPublisher{cluster: cluster, log: log, wake: make(chan struct{}, 1)}
	go b.run(ctx)
	return b
}

// Publish implements agent.StatusPublisher.
func (b *StatusPublisher) Publish(at report.Status) {
	b.mu.Lock()
	b.pending = &at
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// takePending returns the status that is not written yet, and marks it as taken: the next call returns nil.
func (b *StatusPublisher) takePending() *report.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.pending
	b.pending = nil
	return at
}

// requeue stores a status that could not be written, if there is no newer status.
func (b *StatusPublisher) requeue(at *report.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending == nil {
		b.pending = at
	}
}

func (b *StatusPublisher) run(ctx context.Context) {
	next := newBackoff()
	for ctx.Err() == nil {
		at := b.takePending()
		if at == nil {
			select {
			case <-ctx.Done():
			case <-b.wake:
			}
			continue
		}
		wrote, err := b.write(ctx, *at)
		switch {
		case errors.Is(err, report.ErrUnreachable) && !isForbidden(err):
			b.requeue(at)
			sleep(ctx, next.Step())
			continue
		case err != nil && err.Error() != b.lastError && ctx.Err() == nil:
			b.lastError = err.Error()
			b.log.Warn("cannot update the MachineConfigNode; continuing", "err", err)
		}
		next = newBackoff()
		if wrote {
			sleep(ctx, statusInterval)
		}
	}
}

// isForbidden reports whether rights are missing, so that a retry does not help.
func isForbidden(err error) bool {
	code, is := httpStatus(err)
	return is && code == http.StatusForbidden
}

// write updates the object. The result wrote reports whether a write was needed. If a user deleted the object, write
// creates it again.
func (b *StatusPublisher) write(ctx context.Context, at report.Status) (wrote bool, err error) {
	if time.Now().Before(b.retryAt) {
		return false, nil
	}
	known := b.stored != nil
	wrote, err = b.writeOnce(ctx, at)
	if known && apierrors.IsNotFound(err) {
		b.stored = nil
		wrote, err = b.writeOnce(ctx, at)
	}
	if apierrors.IsNotFound(err) {
		b.retryAt = time.Now().Add(missingKindInterval)
	}
	return wrote, err
}

// writeOnce reads the object if its state is unknown. writeOnce writes the spec and the status if they differ.
func (b *StatusPublisher) writeOnce(ctx context.Context, at report.Status) (wrote bool, err error) {
	if at.NodeName, err = b.cluster.Name(); err != nil {
		return false, err
	}
	if b.stored != nil && b.stored.Name != at.NodeName {
		b.stored = nil
	}
	if b.stored == nil || !isOwned(b.stored, at) {
		if b.stored, err = b.read(ctx, at.NodeName); err != nil {
			return false, err
		}
	}
	// The UID of the Node is unknown: the task on disk has no UID, and the Node has not been read yet.
	if at.Node.UID == "" {
		node, err := b.cluster.Node(ctx)
		if err != nil {
			return false, err
		}
		at.Node.UID = node.UID
	}
	if b.stored == nil || b.stored.Spec != at.Spec() || !isOwned(b.stored, at) {
		wrote = true
		is, err := b.apply(ctx, at.NodeName,
			map[string]any{
				"metadata": map[string]any{"name": at.NodeName, "ownerReferences": at.Owners()},
				"spec":     at.Spec(),
			})
		if err != nil {
			return wrote, err
		}
		b.stored = is
	}
	status := at.ObjectStatus(b.stored.Status, b.stored.Generation, metav1.Now())
	if report.SameStatus(b.stored.Status, status) {
		return wrote, nil
	}
	is, err := b.apply(ctx, at.NodeName, map[string]any{
		"metadata": map[string]any{"name": at.NodeName},
		"status":   status,
	}, "status")
	if err == nil {
		b.stored = is
	}
	return true, err
}

// isOwned reports whether the object belongs to the present Node, as far as the Node's UID is known.
func isOwned(is *mcfgv1.MachineConfigNode, at report.Status) bool {
	for _, want := range at.Owners() {
		if !slices.ContainsFunc(is.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == want.UID }) {
			return false
		}
	}
	return true
}

// read returns the stored object; nil for none.
func (b *StatusPublisher) read(ctx context.Context, name string) (*mcfgv1.MachineConfigNode, error) {
	is, err := withClient(b.cluster, func(k *Client) (*mcfgv1.MachineConfigNode, error) {
		is := new(mcfgv1.MachineConfigNode)
		return is, k.get(ctx, machineConfigNodes, name, is)
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfigNode %s: %w", name, err)
	}
	return is, nil
}

// apply writes fields of the object or its status, and returns the whole object.
func (b *StatusPublisher) apply(ctx context.Context, name string, fields map[string]any,
	part ...string,
) (*mcfgv1.MachineConfigNode, error) {
	fields["apiVersion"], fields["kind"] = mcfgv1.GroupVersion.String(), "MachineConfigNode"
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("writing MachineConfigNode %s: %w", name, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("writing MachineConfigNode %s: %w", name, err)
	}
	if current, _, _ := unstructured.NestedString(object.Object, "status", "configVersion", "current"); current == "" {
		// The field is removed because the API accepts only a name, or no field.
		unstructured.RemoveNestedField(object.Object, "status", "configVersion", "current")
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	is, err := withClient(b.cluster, func(k *Client) (*unstructured.Unstructured, error) {
		is, err := k.objects.Resource(machineConfigNodes).Apply(ctx, name, object,
			metav1.ApplyOptions{FieldManager: statusManager, Force: true}, part...)
		return is, markUnreachable(err)
	})
	typed := new(mcfgv1.MachineConfigNode)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(is.Object, typed)
	}
	if err != nil {
		return nil, fmt.Errorf("writing MachineConfigNode %s: %w", name, err)
	}
	return typed, nil
}

// retryableCodes are the codes below 500 after which the daemon retries. These codes mean: too many requests; rejected
// credentials, because they may have expired; and missing rights, because a starting API server may not have loaded its
// roles yet.
var retryableCodes = []int32{http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden}

// markUnreachable wraps an error as report.ErrUnreachable, unless the API server gave a usable answer.
func markUnreachable(err error) error {
	code, answered := httpStatus(err)
	switch {
	case err == nil, meta.IsNoMatchError(err):
		return err
	case !answered:
		return &report.NoAnswerError{Err: err}
	case code >= http.StatusInternalServerError, slices.Contains(retryableCodes, code):
		return &report.AnswerError{Code: int(code), Err: err}
	}
	return err
}

// httpStatus returns the HTTP status that an API server, or a proxy in front of it, sent with an error.
func httpStatus(err error) (code int32, is bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return 0, false
	}
	return s.Status().Code, true
}

// isUntrusted reports whether the client or the server rejected the certificate of the other side.
func isUntrusted(err error) bool {
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	if errors.As(err, &unverified) || errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &name) {
		return true
	}
	var said *net.OpError // A TLS alert of the other side has no exported type in crypto/tls, so its text is compared.
	return errors.As(err, &said) && said.Op == "remote error"
}

// lookupLimit is how long the resolution of a name may take.
const lookupLimit = 5 * time.Second

// dial connects to localhost without a resolver, because a machine may not have one.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "localhost" {
		return d.DialContext(ctx, network, address)
	}
	conn, err := d.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		if six, sixErr := d.DialContext(ctx, network, net.JoinHostPort("::1", port)); sixErr == nil {
			return six, nil
		}
	}
	return conn, err
}

// KubeletHealth returns a function that calls a kubelet's health endpoint, such as http://localhost:10248/healthz. The
// function is for agent.HealthOptions.Kubelet.
func KubeletHealth(endpoint string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // only read
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 200))
		if err != nil {
			text = nil
		}
		return fmt.Errorf("%s says %s: %s", endpoint, answer.Status,
			report.OneLine(strings.ReplaceAll(string(text), "\n", " ")))
	}
}
