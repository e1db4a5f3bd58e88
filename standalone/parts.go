package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// upstream returns the upstream program with a name, as a function that does not return. If there is no such program,
// upstream returns nil. Each program reads os.Args, as its own executable would.
func upstream(name string) func(args []string) {
	var run func()
	switch name {
	case "etcd":
		run = func() { etcdmain.Main(os.Args) }
	case "kube-apiserver":
		run = func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) }
	case "kube-controller-manager":
		run = func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) }
	case "kube-scheduler":
		run = func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) }
	case "kubectl":
		run = runKubectl
	default:
		return nil
	}
	return func(args []string) {
		os.Args = args
		run()
		os.Exit(0)
	}
}

func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
