package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	remote "k8s.io/cri-client/pkg"
	fakeremote "k8s.io/cri-client/pkg/fake"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` with the identity system:node:NAME")
	name := flag.String("name", "", "`name` of the node")
	root := flag.String("root", "", "`folder` for the kubelet's files, made where it is missing")
	flag.Parse()
	if *kubeconfig == "" || *name == "" || *root == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *name, *root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run returns when the context ends.
func run(ctx context.Context, kubeconfig, name, root string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent, config.ContentType, config.QPS, config.Burst = "hollow-kubelet",
		"application/vnd.kubernetes.protobuf", 50, 100
	kubelet, err := hollow(ctx, config, name, root)
	if err != nil {
		return err
	}
	go kubelet.Run(ctx) // Run of the kubelet never returns.
	<-ctx.Done()
	return nil
}

// hollow returns a kubelet that listens only on the socket of its container runtime, which runs nothing.
func hollow(ctx context.Context, config *rest.Config, name, root string) (*kubemark.HollowKubelet, error) {
	flags, settings := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: name, MaxPods: 300})
	settings.EnableServer = false
	// The kubelet's flags have created a directory below /tmp, and no other code removes it.
	made := flags.RootDirectory
	flags.RootDirectory = filepath.Join(root, "kubelet")
	settings.StaticPodPath, settings.PodLogsDir = filepath.Join(root, "static-pods"), filepath.Join(root, "pod-logs")
	if err := errors.Join(os.RemoveAll(made), os.MkdirAll(settings.StaticPodPath, 0o755),
		os.MkdirAll(settings.PodLogsDir, 0o755)); err != nil {
		return nil, fmt.Errorf("making folders in %s: %w", root, err)
	}
	socket := "unix://" + filepath.Join(root, "cri.sock")
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	beating := rest.CopyConfig(config)
	beating.QPS, beating.Timeout = -1, settings.NodeStatusUpdateFrequency.Duration
	heartbeat, err := clientset.NewForConfig(beating)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	containers := fakeremote.NewFakeRemoteRuntime()
	if err := containers.Start(socket); err != nil {
		return nil, fmt.Errorf("starting the container runtime: %w", err)
	}
	runtime, err := remote.NewRemoteRuntimeServiceBuilder().WithEndpoint(socket).WithConnectionTimeout(
		15 * time.Second).Build(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting to the container runtime: %w", err)
	}
	return kubemark.NewHollowKubelet(flags, settings, client, heartbeat,
		&cadvisortest.Fake{NodeName: name}, containers.ImageService, runtime, cm.NewStubContainerManager()), nil
}
