package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
)

// Collection is one run of the verb support-bundle.
type Collection struct {
	Target
	// Version is the version of this program.
	Version string

	output, namespace string
}

// Flags adds the flags.
func (k *Collection) Flags(cmd *cobra.Command) {
	k.AddFlags(cmd)
	cmd.Flags().StringVar(&k.output, "output", "", "`FILE` to write, or - for standard output; empty: "+
		"bunsen-support-TIME.tar.gz in this directory")
	cmd.Flags().StringVar(&k.namespace, "namespace", "bunsen-system", "`namespace` of Bunsen's pods")
}

// collector reads one cluster.
type collector struct {
	*Bundle
	client    client.Client
	api       rest.Interface // api is for reading logs. A typed client of all kinds would add 12 MB to the program.
	namespace string
	progress  io.Writer
}

// Run reads the cluster and writes the bundle.
func (k *Collection) Run(cmd *cobra.Command) error {
	now := time.Now().UTC()
	name := "bunsen-support-" + now.Format("20060102-150405")
	if k.output == "" {
		k.output = name + ".tar.gz"
	}
	rc, err := k.Config()
	if err != nil {
		return err
	}
	rc = rest.CopyConfig(rc)
	rc.Timeout = logTimeout
	clients, err := discovery.NewDiscoveryClientForConfig(rc)
	if err != nil {
		return cli.Unreachable(fmt.Errorf("connecting to %s: %w", rc.Host, err))
	}
	server, err := clients.ServerVersion()
	if err != nil {
		return RequestError("reading the version of the cluster", err)
	}
	c := collector{
		Bundle: &Bundle{Name: name, At: now}, api: clients.RESTClient(), namespace: k.namespace,
		progress: cmd.ErrOrStderr(),
	}
	if c.client, err = k.Connect(); err != nil {
		return err
	}
	c.Add("about.txt", fmt.Appendf(nil, "time: %s\nbunsen: %s\nKubernetes: %s\nnamespace: %s\n",
		now.Format(time.RFC3339), k.Version, server.GitVersion, k.namespace))
	c.collect(cmd.Context())
	if err := k.write(c.Bundle, cmd.OutOrStdout()); err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.ErrOrStderr(), safetext.Lines(fmt.Sprintf("wrote %d files to %s. It has no contents of "+
		"files and units; read it before you send it. left-out.txt lists what is missing.\n", c.Len()+1, k.output)))
	return err
}

// collect reads all parts. If a part cannot be read, collect adds it to the list of missing parts.
func (c collector) collect(ctx context.Context) {
	c.say("reading the status")
	c.answers(ctx)
	c.say("reading objects")
	for _, kind := range kinds(c.namespace) {
		c.objects(ctx, kind)
	}
	c.LeaveOut("Secrets", "a bundle never has them")
	c.LeaveOut("contents of files and units", "a bundle has their names and sizes")
	c.say("reading logs")
	c.logs(ctx)
}

func (c collector) say(what string) { fmt.Fprintln(c.progress, what) }

// write writes the bundle to a file that only the user can read, or to standard output.
func (k *Collection) write(b *Bundle, out io.Writer) (err error) {
	if k.output == "-" {
		return b.Write(out)
	}
	file, err := os.OpenFile(k.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return cli.Invalid(fmt.Errorf("creating the bundle: %w", err))
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return b.Write(file)
}
