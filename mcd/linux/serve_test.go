package linux_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
)

// daemon is one that serves a directory; serving gets a value whenever it begins to, and ended one whenever it ends.
type daemon struct {
	serving, ended chan struct{}
	done           chan error
	stop           func()
	said           *lines
}

type lines struct {
	mu   sync.Mutex
	more *sync.Cond
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.more.Broadcast()
	return l.text.Write(p)
}

func startDaemon(t *testing.T, root string, form linux.Form, finishing <-chan struct{}) *daemon {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	d := &daemon{make(chan struct{}, 8), make(chan struct{}, 8), make(chan error, 1), stop, &lines{}}
	d.said.more = sync.NewCond(&d.said.mu)
	o := linux.Serving{Dir: root, Form: form, Poll: time.Millisecond, Log: slog.New(slog.NewTextHandler(d.said, nil))}
	go func() {
		d.done <- linux.Serve(ctx, o, func(ctx context.Context, h host.Host) error {
			if h.Files == nil {
				t.Error("it serves no machine")
			}
			d.serving <- struct{}{}
			<-ctx.Done()
			if finishing != nil {
				<-finishing // an update that runs
			}
			d.ended <- struct{}{}
			return nil
		})
	}()
	t.Cleanup(stop)
	return d
}

func (d *daemon) ends(t *testing.T) {
	t.Helper()
	d.stop()
	if err := <-d.done; err != nil {
		t.Error(err)
	}
}

// await waits until a daemon has logged something.
func (d *daemon) await(text string) {
	d.said.mu.Lock()
	defer d.said.mu.Unlock()
	for !strings.Contains(d.said.text.String(), text) {
		d.said.more.Wait()
	}
}

func serveRoot(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a daemon serves a machine as root")
	}
	return t.TempDir()
}

// TestThePodHandsOverToTheServiceAndBack: at most one of them serves, and the pod first finishes what it does.
func TestThePodHandsOverToTheServiceAndBack(t *testing.T) {
	root := serveRoot(t)
	update := make(chan struct{})
	pod := startDaemon(t, root, linux.Pod, update)
	<-pod.serving
	service := startDaemon(t, root, linux.Service, nil)
	service.await("waiting: another daemon serves this machine")
	pod.await("finishing, then standing by")
	select {
	case <-service.serving:
		t.Fatal("two daemons serve one machine")
	default:
	}
	close(update)
	<-pod.ended
	<-service.serving
	pod.await("standing by: the service machine-config-daemon.service serves this machine")

	service.ends(t)
	<-pod.serving
	pod.await("the service has ended; this pod serves the machine")
	pod.ends(t)
}

// TestAPodBesideAServiceStandsBy also where the service was first, and a service waits for one that still runs.
func TestAPodBesideAServiceStandsBy(t *testing.T) {
	root := serveRoot(t)
	first := startDaemon(t, root, linux.Service, nil)
	<-first.serving
	pod := startDaemon(t, root, linux.Pod, nil)
	pod.await("standing by")
	second := startDaemon(t, root, linux.Service, nil)
	second.await("waiting: another daemon serves this machine")
	pod.ends(t)
	first.ends(t)
	<-second.serving
	second.ends(t)
	if len(pod.serving) > 0 {
		t.Error("the pod served beside the service")
	}
}

// TestAPodWaitsForTheOldPod of a rolling update.
func TestAPodWaitsForTheOldPod(t *testing.T) {
	root := serveRoot(t)
	old := startDaemon(t, root, linux.Pod, nil)
	<-old.serving
	next := startDaemon(t, root, linux.Pod, nil)
	next.await("waiting: another daemon serves this machine")
	old.ends(t)
	<-next.serving
	next.ends(t)
}
