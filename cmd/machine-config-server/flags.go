package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcshttp "github.com/bunsen-os/bunsen/mcs/http"
)

// flags are what the command line says.
type flags struct {
	from   fromFlags
	git    gitFlags
	tls    tlsFlags
	access accessFlags
	limits limitFlags
	extra  extraFlags
	serve  string
	name   string
}

// fromFlags say where configs and tokens come from.
type fromFlags struct {
	kubeconfig, dir, git, tokens, cache string
}

// cluster tells whether there is one.
func (f fromFlags) cluster() bool { return f.dir == "" && f.git == "" }

// gitFlags say what of a repository is served, and how it is reached.
type gitFlags struct {
	ref, path, credentials, keys string
	pools                        []string
	interval                     time.Duration
	osImage, extensionsImage     string
}

// tlsFlags say where to listen, and with which certificate.
type tlsFlags struct {
	listen, metrics string
	dir, secret     string
	hostnames       []string
	grace           time.Duration
}

// accessFlags say who may ask.
type accessFlags struct {
	open              bool
	secrets, clientCA string
	from              []string
	audit             string
}

// limitFlags bound what clients may do.
type limitFlags struct {
	rate, failureRate      float64
	burst, failureBurst    int
	connections, perSource int
}

// extraFlags say what is added to each config.
type extraFlags struct {
	server, serverCA   string
	kubeletCA, cloudCA string
	registryCAs        []string
}

// Values of --secrets.
const (
	secretsBound = "bound"
	secretsAll   = "all"
)

// group is a few flags under one title of the help.
type group struct {
	title string
	flags *pflag.FlagSet
}

// groups are all flags, as the help shows them.
func (f *flags) groups() []group {
	return []group{
		{"From a cluster, or without one", f.from.set()},
		{"Of a repository (--from-git)", f.git.set()},
		{"Which config, and what is added to it", f.configs()},
		{"Who may ask", f.access.set()},
		{"How much", f.limits.set()},
		{"Where it listens", f.listening()},
	}
}

func (f *fromFlags) set() *pflag.FlagSet {
	s := newSet()
	s.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the API server (default: the pod's service account)")
	s.StringVar(&f.dir, "from-dir", "", "serve the rendered configs of a `folder`, as bunsen build prints them; no cluster is asked")
	s.StringVar(&f.git, "from-git", "", "serve what a repository's commit renders to, from its `URL`; no cluster is asked")
	s.StringVar(&f.tokens, "tokens-file", "", "`file` or folder of tokens, as bunsen token create --offline prints them; without a cluster only")
	s.StringVar(&f.cache, "cache-dir", "", "`folder` of this server alone for what it served last, with which it starts while the API server or the\nremote is away, and for the uses of --tokens-file")
	return s
}

func (f *gitFlags) set() *pflag.FlagSet {
	s := newSet()
	s.StringVar(&f.ref, "ref", "", "branch or tag by its name, semver:RANGE, refs/… or commit to follow (default: the remote's default branch)")
	s.StringVar(&f.path, "path", "", "`folder` of the repository that holds pools/")
	s.StringSliceVar(&f.pools, "pools", nil, "`pools` to serve (default: all that the repository has)")
	s.DurationVar(&f.interval, "interval", time.Minute, "how often to look for new commits")
	s.StringVar(&f.credentials, "git-credentials", "", "`folder` with files username and password, bearerToken, ca.crt, identity, known_hosts, hosts")
	s.StringVar(&f.keys, "git-keys", "", "`file` or folder of keys, one of which must have signed the commit")
	s.StringVar(&f.osImage, "os-image", "", "OS `image` of pools that set none")
	s.StringVar(&f.extensionsImage, "extensions-image", "", "`image` of extensions, likewise")
	return s
}

func (f *flags) configs() *pflag.FlagSet {
	s := newSet()
	s.StringVar(&f.serve, "serve", v1alpha1.ServeHealthy, "healthy: the last config that the whole pool was well with; newest: the one that is being rolled out.\nNever one whose rollout was halted. A pool's annotation "+v1alpha1.ServeAnnotation+" wins")
	x := &f.extra
	s.StringVar(&x.server, "join-server", "", "`URL` of the API server as new machines reach it: each config gets a bootstrap kubeconfig for it, with a\ntoken that is made for this machine and ends within the hour")
	s.StringVar(&x.serverCA, "join-ca", "", "`file` of the CA of --join-server (default: the one this server believes)")
	s.StringVar(&x.kubeletCA, "kubelet-ca", "", "`file` of the CA of those who may ask kubelets (default with --join-server: the cluster's own)")
	s.StringVar(&x.cloudCA, "cloud-ca", "", "`file` of the CA of the cloud's own services")
	s.StringArrayVar(&x.registryCAs, "registry-ca", nil, "`NAME=FILE`: the CA of a registry, by its host or host:port; may be repeated")
	return s
}

func (f *accessFlags) set() *pflag.FlagSet {
	s := newSet()
	s.BoolVar(&f.open, "open", false, "serve whoever asks, without a token")
	s.StringVar(&f.secrets, "secrets", secretsBound, "bound: secrets of a config go to tokens and certificates of one node only, other machines get them once they\nhave joined; all: to everybody who may ask")
	s.StringVar(&f.clientCA, "client-ca", "", "`file` of the CA of client certificates: organization bunsen:pool:POOL, common name bunsen:node:NODE")
	s.StringSliceVar(&f.from, "allow-from", nil, "`networks` and addresses that may ask (default: all)")
	s.StringVar(&f.audit, "audit-log", "", "`file` that gets one line of JSON for each answer, - for the standard output")
	return s
}

func (f *limitFlags) set() *pflag.FlagSet {
	s, limits, bounds := newSet(), mcshttp.DefaultLimits(), mcshttp.DefaultBounds()
	s.Float64Var(&f.rate, "rate", limits.Requests.PerSecond, "requests per second of one source (an IPv4 address, an IPv6 /64); 0: no limit")
	s.IntVar(&f.burst, "burst", limits.Requests.Burst, "requests of one source at once")
	s.Float64Var(&f.failureRate, "failure-rate", limits.Failures.PerSecond, "requests per second of one source without a good token; 0: no limit")
	s.IntVar(&f.failureBurst, "failure-burst", limits.Failures.Burst, "such requests at once")
	s.IntVar(&f.connections, "max-connections", bounds.Connections, "connections at once, of all")
	s.IntVar(&f.perSource, "max-connections-per-source", bounds.PerSource, "connections at once of one source")
	return s
}

func (f *flags) listening() *pflag.FlagSet {
	s, t := newSet(), &f.tls
	s.StringVar(&t.listen, "listen", ":22623", "address and port to serve HTTPS on; without an address all of this host, of IPv4 and IPv6")
	s.StringVar(&t.metrics, "metrics-listen", "", "loopback `address` and port that serve /metrics for Prometheus over plain HTTP (default: none)")
	s.StringSliceVar(&t.hostnames, "hostnames", nil, "names and addresses that machines ask for; loopback's are added")
	s.StringVar(&t.secret, "tls-secret", "", "`NAMESPACE/NAME` of the Secret with the certificate (default in a cluster, unless there is a --cert-dir:\n"+defaultSecret+")")
	s.StringVar(&t.dir, "cert-dir", "", "`folder` of ca.crt, ca.key, tls.crt and tls.key; beside --tls-secret a copy for a start without API server\n(default without a cluster: "+defaultCertDir+")")
	s.StringVar(&f.name, "name", "", "this server's `name` among the replicas (default: $POD_NAME, or the host's name)")
	s.DurationVar(&t.grace, "grace", time.Minute, "how long answers under way may go on when it is told to stop")
	return s
}

// Where the certificate is by default.
const (
	defaultSecret  = "bunsen-system/machine-config-server-tls"
	defaultCertDir = "/etc/bunsen/machine-config-server"
	// caName is the Secret of the CA, and the ConfigMap of its certificate.
	caName = "machine-config-server-ca"
)

func newSet() *pflag.FlagSet {
	s := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.SortFlags = false
	return s
}

// usage prints the flags in their groups.
func usage(groups []group) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error {
		out := cmd.OutOrStdout()
		if _, err := fmt.Fprintf(out, "Usage:\n  %s [flags]\n\nExamples:\n%s\n", cmd.Use, cmd.Example); err != nil {
			return err
		}
		for _, g := range groups {
			if _, err := fmt.Fprintf(out, "\n%s:\n%s", g.title, g.flags.FlagUsages()); err != nil {
				return err
			}
		}
		return nil
	}
}
