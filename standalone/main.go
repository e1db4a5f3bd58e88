package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bunsen-os/bunsen/standalone/assets"
	"github.com/bunsen-os/bunsen/standalone/up"
)

const usage = `bunsen-standalone is a local Kubernetes control plane with Bunsen in one executable.

  bunsen-standalone up [flags]       start everything and keep it running; up -h lists the flags
  bunsen-standalone status [flags]   show the running processes and their memory
  bunsen-standalone assets DIR       create links in DIR for tests that read KUBEBUILDER_ASSETS

and, also through a link with that name:

  etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl
`

func main() {
	args := os.Args
	if part := upstream(filepath.Base(args[0])); part != nil {
		part(args)
	}
	if len(args) < 2 {
		os.Exit(explain(os.Stderr, 2))
	}
	if part := upstream(args[1]); part != nil {
		part(args[1:])
	}
	switch args[1] {
	case "up":
		os.Exit(up.Main(args[2:], os.Stdout, os.Stderr))
	case "status":
		os.Exit(up.Status(args[2:], os.Stdout, os.Stderr))
	case "assets":
		os.Exit(link(args[2:]))
	case "help", "-h", "--help":
		os.Exit(explain(os.Stdout, 0))
	default:
		fmt.Fprintf(os.Stderr, "unknown command %q\n\n", args[1])
		os.Exit(explain(os.Stderr, 2))
	}
}

func explain(w io.Writer, code int) int {
	fmt.Fprint(w, usage)
	return code
}

func link(args []string) int {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return explain(os.Stderr, 2)
	}
	self, err := os.Executable()
	if err == nil {
		_, err = assets.Link(args[0], self, "etcd", "kube-apiserver", "kubectl")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
