package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/bunsen-os/bunsen/mcd/simulate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	node := flag.String("node-name", "", "name of the Node")
	kubeconfig := flag.String("kubeconfig", "/var/lib/kubelet/kubeconfig",
		"kubeconfig with the identity system:node:<name>")
	healthz := flag.String("healthz", "127.0.0.1:10248", "where /healthz is answered")
	broken := flag.String("broken", "/etc/kubernetes/broken", "while this file is there, the kubelet is not healthy")
	flag.Parse()
	if err := run(ctx, *node, *kubeconfig, *healthz, *broken); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, node, kubeconfig, healthz, broken string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %q: %w", kubeconfig, err)
	}
	kubelet, err := simulate.New(config, simulate.Config{Node: node, BootID: bootID, Log: slog.Default()})
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: healthz, ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := os.Stat(broken); err == nil || r.URL.Path != "/healthz" {
				http.Error(w, "not healthy", http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, "ok")
		}),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	go kubelet.Run(ctx)
	select {
	case err := <-failed:
		return fmt.Errorf("answering the probe: %w", err)
	case <-ctx.Done():
		// A machine that goes down does not say so: its Node turns NotReady when somebody misses it.
		return ignoreClosed(server.Close())
	}
}

func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
