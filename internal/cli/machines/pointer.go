package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pointer is one run of the verb pointer.
type Pointer struct {
	Grant
	Form                       cli.Output
	Server, Ca, Token, Version string
	NoToken, NoCA, Zipped      bool
	Daemon                     Daemon

	// the architectures of each running server's daemon; nil if bunsen has not read a cluster
	offered [][]string
}

// NoneMade refuses flags for a new token if the command does not create one.
func (p *Pointer) NoneMade(cmd *cobra.Command, _ []string) error {
	for _, given := range []string{"token", "no-token"} {
		for _, made := range []string{"node", "uses", "ttl"} {
			if cmd.Flags().Changed(given) && cmd.Flags().Changed(made) {
				return fmt.Errorf("--%s configures a new token, and --%s creates none: remove one of the two flags",
					made, given)
			}
		}
	}
	return nil
}

// Versions lists the versions of Ignition that a pointer config can have.
func Versions(between string) string {
	var out []string
	for _, v := range join.PointerVersions() {
		out = append(out, string(v))
	}
	return strings.Join(out, between)
}

// Run prints a pointer config.
func (p *Pointer) Run(cmd *cobra.Command) error {
	if err := p.Form.Check(); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	out, err := p.readInputs(cmd)
	if err != nil {
		return err
	}
	if out.Daemon, err = p.Daemon.choose(p.offered); err != nil {
		return cli.Invalid(err)
	}
	// First with a dummy token, so that no token is created if the pointer config cannot be written.
	text, err := p.write(out)
	if err != nil {
		return cli.Invalid(err)
	}
	if out.Token == "" && !p.NoToken {
		c, err := p.Connect()
		if err != nil {
			return err
		}
		made, kept, err := p.create(cmd.Context(), c)
		if err != nil {
			return err
		}
		cli.Say(cmd.ErrOrStderr(), "%s; the pointer config contains it, and bunsen prints it only now",
			Describe(kept, time.Now()))
		out.Token = made.String()
		if text, err = p.write(out); err != nil {
			return cli.Invalid(err)
		}
	}
	p.printNotes(cmd.ErrOrStderr(), out, len(text))
	p.Daemon.printNote(cmd.ErrOrStderr(), out.Daemon, len(p.offered) > 0)
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// readInputs reads what the flags name, and all else from the cluster.
func (p *Pointer) readInputs(cmd *cobra.Command) (join.Pointer, error) {
	out := join.Pointer{
		Pool: p.grant.Pool, Server: p.Server, Token: p.Token, Version: mcs.Version(p.Version),
		Gzip: p.Zipped,
	}
	var err error
	if p.Token == "-" {
		text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1<<10))
		if err != nil {
			return out, cli.Invalid(fmt.Errorf("reading the token from standard input: %w", err))
		}
		if out.Token = strings.TrimSpace(string(text)); out.Token == "" {
			return out, cli.Invalid(errors.New("--token -: standard input is empty"))
		}
	}
	if _, err := join.ParseToken(out.Token); out.Token != "" && err != nil {
		return out, cli.Invalid(errors.New("--token: that is no provisioning token: want bunsen.ID.SECRET, as " +
			"`bunsen token create` prints it"))
	}
	if p.Ca != "" {
		if out.CA, err = os.ReadFile(p.Ca); err != nil {
			return out, cli.Invalid(fmt.Errorf("reading the CA: %w", err))
		}
		if len(out.CA) == 0 {
			return out, cli.Invalid(fmt.Errorf("reading the CA: %s is empty; --no-ca names none", p.Ca))
		}
	}
	if (p.Ca != "" || p.NoCA) && p.Server != "" {
		return out, nil
	}
	c, err := p.Connect()
	if err != nil {
		return out, err
	}
	return p.readCluster(cmd.Context(), c, out)
}

func (p *Pointer) readCluster(ctx context.Context, c client.Client, out join.Pointer) (join.Pointer, error) {
	published, err := readServers(ctx, c)
	if err != nil {
		return out, err
	}
	p.offered = published.daemons()
	var missing []error
	caSource := "--ca"
	if p.Ca == "" && !p.NoCA {
		caSource = publishedIn
		out.CA, err = published.authority()
		missing = append(missing, err)
	}
	if p.Server != "" {
		missing = append(missing, published.checkServer(p.Server, out.CA, caSource))
	}
	if p.Server == "" {
		out.Server, err = published.url(out.CA, caSource)
		missing = append(missing, err)
	}
	if err := errors.Join(missing...); err != nil {
		return out, cli.Invalid(err)
	}
	return out, nil
}

func readServers(ctx context.Context, c client.Client) (publishedServers, error) {
	var out publishedServers
	var published corev1.ConfigMap
	switch err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.ServerNamespace, Name: v1alpha1.ServerConfigMap},
		&published); {
	case err == nil:
		out.published = published.Data
	case !apierrors.IsNotFound(err):
		return out, kube.RequestError("reading "+publishedIn, err)
	}
	var leases coordinationv1.LeaseList
	// A user who may not read Leases has to give the URL.
	if c.List(ctx, &leases, client.InNamespace(v1alpha1.ServerNamespace),
		client.MatchingLabels{v1alpha1.ServerLabel: v1alpha1.ServerComponent}) != nil {
		return out, nil
	}
	told := inspect.NewStatus(fleet.Cluster{Leases: leases.Items}, time.Now()).Servers
	if told == nil {
		return out, nil
	}
	for _, r := range told.Replicas {
		if r.Alive && r.Report != nil {
			out.alive = append(out.alive, *r.Report)
		}
	}
	return out, nil
}

func (p *Pointer) write(out join.Pointer) ([]byte, error) {
	if p.Form.Form == "butane" {
		return out.Butane()
	}
	return out.Ignition()
}

// userDataLimit: AWS has the smallest limit of all clouds.
const userDataLimit = 16 << 10

func (p *Pointer) printNotes(w io.Writer, out join.Pointer, size int) {
	if out.TokenInURL() {
		cli.Say(w, "note: Ignition %s sends no headers, so the URL contains the token, and the machine writes the "+
			"URL to its log. Use --version %s if the machine supports it", out.Version, join.DefaultPointerVersion)
	}
	if u, err := url.Parse(out.Server); err == nil && u.Port() == "" {
		source := "--server"
		if p.Server == "" {
			source = urlSource
		}
		cli.Say(w, "note: no port in %s: machines connect to port 443; servers listen on 22623 by default", source)
	}
	if size > userDataLimit {
		cli.Say(w, "note: it has %d bytes, and AWS takes %d as user data: give fewer certificates with --ca", size,
			userDataLimit)
	}
}
