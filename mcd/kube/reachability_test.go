package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/report"
)

func TestWhatAnAnswerSaysAboutTheNetwork(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	dialling := func(err error) error { return &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: err}} }
	for says, c := range map[string]struct {
		err         error
		there, here health.API
		unreachable bool
	}{
		"an answer":                             {nil, health.Answers, health.Answers, false},
		"there is no such Node":                 {apierrors.NewNotFound(nodes, "n"), health.Answers, health.Answers, false},
		"roles are not known yet":               {apierrors.NewForbidden(nodes, "n", errors.New("no")), health.Answers, health.Answers, true},
		"the credentials are not taken":         {apierrors.NewUnauthorized("no"), health.Untrusted, health.Untrusted, true},
		"too many requests":                     {apierrors.NewTooManyRequests("slow", 1), health.Answers, health.Answers, true},
		"a failure of the server":               {apierrors.NewInternalError(errors.New("etcd")), health.RefusedElsewhere, health.RefusedHere, true},
		"a load balancer with nobody behind it": {apierrors.NewServiceUnavailable("none"), health.RefusedElsewhere, health.RefusedHere, true},
		"nobody listens":                        {dialling(syscall.ECONNREFUSED), health.RefusedElsewhere, health.RefusedHere, true},
		"it hangs up":                           {&url.Error{Op: "Get", Err: io.EOF}, health.RefusedElsewhere, health.RefusedHere, true},
		"another certificate":                   {&url.Error{Op: "Get", Err: x509.UnknownAuthorityError{}}, health.Untrusted, health.Untrusted, true},
		"no route":                              {dialling(syscall.EHOSTUNREACH), health.NoAnswer, health.NoAnswer, true},
		"no name":                               {dialling(&net.DNSError{Err: "no such host"}), health.NoAnswer, health.NoAnswer, true},
		"silence":                               {context.DeadlineExceeded, health.NoAnswer, health.NoAnswer, true},
	} {
		t.Run(says, func(t *testing.T) {
			err := markUnreachable(c.err)
			if errors.Is(err, report.ErrUnreachable) != c.unreachable {
				t.Errorf("unreachable is %v: %v", !c.unreachable, err)
			}
			if code, answered := httpStatus(c.err); c.unreachable &&
				strings.Contains(err.Error(), "does not answer") == answered ||
				answered && c.unreachable && !strings.Contains(err.Error(), fmt.Sprintf("answered %d: ", code)) {
				t.Errorf("answered is %t, and the text is %v", answered, err)
			}
			there, here := apiHealth(err, func() bool { return false }), apiHealth(err, func() bool { return true })
			if there != c.there || here != c.here {
				t.Errorf("there %d, here %d; want %d, %d", there, here, c.there, c.here)
			}
		})
	}
}

func TestWhetherAServerIsThisMachine(t *testing.T) {
	for server, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://[::1]:6443": true, "https://192.0.2.1:6443": false,
		"https://nowhere.invalid:6443": false, "": false,
	} {
		if isThisMachine(server) != want {
			t.Errorf("%s: %v", server, !want)
		}
	}
}

func TestAKubeletSaysWhatIsWrong(t *testing.T) {
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answer)
		fmt.Fprint(w, "[-]syncloop failed\nreason withheld\x1b[31m")
	}))
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ask := KubeletHealth("http://localhost:" + port + "/healthz")
	if err := ask(t.Context()); err != nil {
		t.Error(err)
	}
	answer = http.StatusInternalServerError
	if err := ask(t.Context()); err == nil || !strings.Contains(err.Error(), "500") ||
		!strings.Contains(err.Error(), "syncloop failed reason withheld[31m") {
		t.Error(err)
	}
	server.Close()
	if err := ask(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
}

func TestAWatchThatFailsIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tries, lasts := 0, false
		watch(ctx, testLog(t), func(ctx context.Context, changed chan<- struct{}) error {
			if tries++; lasts {
				sleep(ctx, time.Hour)
			}
			return errors.New("connection refused")
		})
		time.Sleep(time.Hour)
		if tries < 45 || tries > 70 {
			t.Errorf("%d tries in an hour", tries)
		}
		lasts, tries = true, 0
		time.Sleep(6 * time.Hour)
		if tries > 8 {
			t.Errorf("%d tries in six hours of watches that hold", tries)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAServerThatDoesNotTakeOurCertificateIsStrange(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.TLS = &tls.Config{
			ClientAuth: tls.RequireAndVerifyClientCert,
			MaxVersion: version,
		} //nolint:gosec // a test
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
		server.StartTLS()
		_, err := server.Client().Get(server.URL) //nolint:bodyclose,noctx // there is no answer
		if err == nil || apiHealth(markUnreachable(err), func() bool { return false }) != health.Untrusted {
			t.Errorf("%x: %T: %v", version, err, err)
		}
		server.Close()
	}
}
