package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
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

// The object in which the machine-config-server publishes its data for new machines, for messages.
const (
	publishedIn = "ConfigMap " + v1alpha1.ServerNamespace + "/" + v1alpha1.ServerConfigMap
	urlSource   = "the key " + v1alpha1.ServerURLKey + " of " + publishedIn
)

// publishedServers is what a cluster says about its machine-config-servers.
type publishedServers struct {
	// nil if there is none
	published map[string]string
	// the reports of the replicas that run
	alive []v1alpha1.ServerReport
}

// daemons returns the architectures of each running server's daemon, never nil.
func (s publishedServers) daemons() [][]string {
	out := [][]string{}
	for _, r := range s.alive {
		out = append(out, r.Daemons)
	}
	return out
}

func (s publishedServers) authority() ([]byte, error) {
	if text := s.published[v1alpha1.ServerCAKey]; text != "" {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("the server's CA is unknown: %s has no key %s; does a machine-config-server run in the "+
		"cluster? "+
		"--ca FILE names its CA's certificate, and --no-ca trusts those of the machine's image", publishedIn,
		v1alpha1.ServerCAKey)
}

// url returns the URL at which new machines reach the server: the one that a user configured, or else the only one of a
// server whose certificate the CA signed, or of any server without a CA. caSource names the origin of the CA in
// messages.
func (s publishedServers) url(ca []byte, caSource string) (string, error) {
	if text := strings.TrimSpace(s.published[v1alpha1.ServerURLKey]); text != "" {
		if err := join.CheckServer(text); err != nil {
			return "", fmt.Errorf("%s is %w; fix it there, or set --server", urlSource, err)
		}
		return text, nil
	}
	urls, others, err := s.reported(ca)
	if err != nil {
		return "", err
	}
	if len(urls) == 0 && len(others) > 0 {
		return "", anotherCA(others, caSource)
	}
	const fix = "say it with --server https://HOST:22623, or once for all: kubectl -n " + v1alpha1.ServerNamespace +
		" patch configmap " + v1alpha1.ServerConfigMap + " -p '{\"data\":{\"" + v1alpha1.ServerURLKey +
		"\":\"https://HOST:22623\"}}'"
	switch len(urls) {
	case 0:
		return "", errors.New("how new machines reach the server is not known: " + fix)
	case 1:
		return urls[0], nil
	}
	return "", fmt.Errorf("there is more than one server (%s): %s, with an address that leads to all of them",
		strings.Join(urls, ", "), fix)
}

// reported returns the URLs of the running servers: those whose certificate the CA signed, or that do not report its
// issuer, and the others, which machines with that CA reject. Without a CA, all are in urls.
func (s publishedServers) reported(ca []byte) (urls, others []string, err error) {
	believed, err := join.Fingerprints(ca)
	if err != nil {
		return nil, nil, err
	}
	known := func(sum string) bool { return slices.Contains(believed, sum) }
	for _, r := range s.alive {
		at, err := netip.ParseAddrPort(r.Listen)
		if err != nil || at.Addr().IsUnspecified() || at.Addr().IsLoopback() || at.Addr().IsLinkLocalUnicast() {
			continue // This server does not report how machines reach it.
		}
		into := &urls
		if len(believed) > 0 && len(r.Authorities) > 0 && !slices.ContainsFunc(r.Authorities, known) {
			into = &others
		}
		if u := "https://" + at.String(); !slices.Contains(*into, u) {
			*into = append(*into, u)
		}
	}
	slices.Sort(urls)
	slices.Sort(others)
	return urls, others, nil
}

// checkServer refuses the URL of a server whose certificate machines with the CA reject. It does not check other URLs.
func (s publishedServers) checkServer(server string, ca []byte, caSource string) error {
	urls, others, err := s.reported(ca)
	if server = strings.TrimSuffix(server, "/"); err != nil || slices.Contains(urls, server) ||
		!slices.Contains(others, server) {
		return err
	}
	return anotherCA([]string{server}, caSource)
}

func anotherCA(urls []string, caSource string) error {
	return fmt.Errorf("the server at %s has its certificate from another CA than %s has: give --server and --ca",
		strings.Join(urls, ", "), caSource)
}

// The values of the flag --daemon.
const (
	daemonAuto   = "auto"
	daemonServer = "server"
	daemonNone   = "none"
)

// Daemon has the flags that select how a new machine gets the daemon.
type Daemon struct {
	from, arch, path string
	url, sha512      string
}

// AddFlags adds the flags.
func (d *Daemon) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.from, "daemon", daemonAuto, "whether the first boot installs machine-config-daemon as a service. "+
		"server: the server sends it. none: it is\nin the image or the pool's config, or runs as a pod. auto: "+
		"server, if the cluster's servers have it, else none")
	f.StringVar(&d.arch, "daemon-arch", "", "architecture of the machines: "+strings.Join(join.Architectures(), ", ")+
		"; empty: that of the server's binary")
	f.StringVar(&d.path, "daemon-path", join.DefaultBinaryPath,
		"path of the binary: "+strings.Join(join.BinaryPaths(), ", ")+
			"; Flatcar needs the latter")
	f.StringVar(&d.url, "daemon-url", "", "`URL` of the binary, compressed if it ends in .gz; in place of the server's")
	f.StringVar(&d.sha512, "daemon-sha512", "", "SHA-512 of the binary at --daemon-url, in hexadecimal; Ignition "+
		"accepts no other one")
	cmd.MarkFlagsRequiredTogether("daemon-url", "daemon-sha512")
	cmd.MarkFlagsMutuallyExclusive("daemon", "daemon-url")
	cmd.MarkFlagsMutuallyExclusive("daemon-arch", "daemon-url")
	cli.CompleteFlag(cmd, "daemon", cobra.FixedCompletions([]string{daemonAuto, daemonServer, daemonNone},
		cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(cmd, "daemon-arch", cobra.FixedCompletions(join.Architectures(),
		cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(cmd, "daemon-path", cobra.FixedCompletions(join.BinaryPaths(), cobra.ShellCompDirectiveNoFileComp))
}

// choose returns how machines get the daemon; nil if the pointer config does not install it. The parameter offered has
// the architectures of each running server's binaries; nil if bunsen has not read a cluster.
func (d *Daemon) choose(offered [][]string) (*join.Daemon, error) {
	out := &join.Daemon{Arch: d.arch, Path: d.path, URL: d.url, SHA512: d.sha512}
	switch d.from {
	case daemonAuto, daemonServer, daemonNone:
	default:
		return nil, fmt.Errorf("--daemon %q: want %s, %s or %s", d.from, daemonAuto, daemonServer, daemonNone)
	}
	switch {
	case d.url != "":
		return out, nil
	case d.from == daemonNone:
		return nil, nil
	}
	if out.Arch == "" {
		switch common := commonArchs(offered); {
		case len(common) == 1:
			out.Arch = common[0]
		case len(common) > 1:
			return nil, fmt.Errorf(
				"the servers have the daemon for %s: choose one with --daemon-arch, or --daemon none",
				strings.Join(common, " and "))
		case d.from == daemonAuto:
			return nil, nil
		case offered == nil:
			return nil, errors.New("--daemon server needs --daemon-arch, unless bunsen reads it from a cluster")
		}
	}
	if offered != nil && !slices.Contains(commonArchs(offered), out.Arch) {
		if d.from == daemonAuto {
			return nil, nil
		}
		return nil, fmt.Errorf("not every machine-config-server has the daemon%s: start the servers with --daemon "+
			"FILE, or name a binary with --daemon-url", forArch(out.Arch))
	}
	if offered == nil && d.from == daemonAuto {
		return nil, nil
	}
	return out, nil
}

func forArch(arch string) string {
	if arch == "" {
		return ""
	}
	return " for " + arch
}

func commonArchs(offered [][]string) (out []string) {
	for i, archs := range offered {
		if i == 0 {
			out = slices.Clone(archs)
		}
		out = slices.DeleteFunc(out, func(a string) bool { return !slices.Contains(archs, a) })
	}
	return out
}

// printNote says how the machine gets the daemon if the flag is auto.
func (d *Daemon) printNote(w io.Writer, chosen *join.Daemon, asked bool) {
	switch {
	case chosen != nil && chosen.URL == "":
		cli.Say(w, "note: it installs machine-config-daemon for %s from the server, as a service; --daemon none "+
			"leaves it out", chosen.Arch)
	case chosen == nil && asked && d.from == daemonAuto:
		cli.Say(w, "note: the pointer config does not install machine-config-daemon, because the servers do not have "+
			"it%s. Put it into the image or the config, or run it as a pod", forArch(d.arch))
	}
}
