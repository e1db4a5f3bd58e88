package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/files"
	"github.com/bunsen-os/bunsen/mcs/http"
)

// flags are the values of the command line.
type flags struct {
	from   fromFlags
	git    gitFlags
	tls    tlsFlags
	access accessFlags
	limits limitFlags
	extra  extraFlags
	serve  string
	name   string

	keyService keyServiceFlags
}

// fromFlags select the source of configs and tokens.
type fromFlags struct {
	kubeconfig, dir, git, tokens, cache, trusted string
}

// cluster reports whether configs come from a cluster.
func (f fromFlags) cluster() bool { return f.dir == "" && f.git == "" }

// gitFlags select the git repository, its ref and path, and the credentials for it.
type gitFlags struct {
	ref, path, credentials, keys string
	pools                        []string
	interval                     time.Duration
	osImage, extensionsImage     string
}

// tlsFlags select the address at which the server listens, and its certificate.
type tlsFlags struct {
	listen, metrics string
	dir, secret     string
	hostnames       []string
	grace           time.Duration
}

// accessFlags select which clients are authorized.
type accessFlags struct {
	open              bool
	secrets, clientCA string
	from              []string
	audit             string
}

// keyServiceFlags select the key service of SOPS, and the keys for which it may be asked.
type keyServiceFlags struct {
	address string
	keys    []string
}

// limitFlags limit the requests of clients.
type limitFlags struct {
	rate, failureRate      float64
	burst, failureBurst    int
	connections, perSource int
	content                int64
}

// extraFlags select the additions to each config.
type extraFlags struct {
	server, serverCA   string
	kubeletCA, cloudCA string
	registryCAs        []string
	// registryCredentials is a file as docker login writes it, and registriesConf one with mirrors.
	registryCredentials, registriesConf string
	// contentRegistry is the repository in which the controller keeps large files; empty for none.
	contentRegistry string
	daemons         []string
}

// additions returns the files that the flags add to each config.
func (f extraFlags) additions() ([]files.Addition, error) {
	var all []files.Addition
	if f.kubeletCA != "" {
		all = append(all, files.Addition{Path: files.KubeletCAPath, From: f.kubeletCA})
	}
	if f.cloudCA != "" {
		all = append(all, files.Addition{Path: files.CloudCAPath, From: f.cloudCA})
	}
	named, err := registryCAs(f.registryCAs)
	for _, r := range named {
		all = append(all, files.Addition{Path: fmt.Sprintf(files.RegistryCAPath, r.name), From: r.file})
	}
	return all, err
}

// Values of --secrets.
const (
	secretsBound = "bound"
	secretsAll   = "all"
)

// group is a titled group of flags in the help.
type group struct {
	title string
	flags *pflag.FlagSet
}

// groups returns all flags, as the help shows them.
func (f *flags) groups() []group {
	return []group{
		{"Source of configs and tokens", f.from.set()},
		{"Repository (--from-git)", f.git.set()},
		{"Configs and additions to them", f.configs()},
		{"Access", f.access.set()},
		{"Limits", f.limits.set()},
		{"Listening", f.listening()},
	}
}

func (f *fromFlags) set() *pflag.FlagSet {
	s := newSet()
	s.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the API server (default: the pod's service "+
		"account)")
	s.StringVar(&f.dir, "from-dir", "", "serve the rendered configs in a `folder`, as bunsen build prints them, "+
		"without a cluster")
	s.StringVar(&f.git, "from-git", "", "serve the rendered configs of a repository at a `URL`, without a cluster")
	s.StringVar(&f.tokens, "tokens-file", "", "`file` or folder of tokens, as bunsen token create --offline prints "+
		"them; without a cluster only")
	s.StringVar(&f.trusted, "trust-namespace", "", "`namespace` of OpenShift's configuration, such as "+
		"openshift-config, whose certificates and pull secret nodes also get")
	s.StringVar(&f.cache, "cache-dir", "", "`folder` of this server alone. The server caches configs there, to start "+
		"while the API server or the remote\nis unreachable, and counts the uses of --tokens-file there")
	return s
}

func (f *gitFlags) set() *pflag.FlagSet {
	s := newSet()
	s.StringVar(&f.ref, "ref", "", "branch, tag, semver:RANGE, refs/… or commit to follow (default: the remote's "+
		"default branch)")
	s.StringVar(&f.path, "path", "", "`folder` of the repository that holds pools/")
	s.StringSliceVar(&f.pools, "pools", nil, "`pools` to serve (default: all pools of the repository)")
	s.DurationVar(&f.interval, "interval", time.Minute, "how often to check for new commits")
	s.StringVar(&f.credentials, "git-credentials", "", "`folder` with files username and password, bearerToken, "+
		"ca.crt, identity, known_hosts, hosts")
	s.StringVar(&f.keys, "git-keys", "", "`file` or folder of keys, one of which must have signed the commit")
	s.StringVar(&f.osImage, "os-image", "", "OS `image` for pools that set none, with its digest")
	s.StringVar(&f.extensionsImage, "extensions-image", "", "extensions `image` for pools that set none, with "+
		"its digest")
	return s
}

func (f *flags) configs() *pflag.FlagSet {
	s := newSet()
	s.StringVar(&f.serve, "serve", v1alpha1.ServeHealthy, "healthy: the last config with which the whole pool was "+
		"healthy; newest: the config of the present rollout.\nThe server never serves a config whose rollout was "+
		"halted. The annotation "+v1alpha1.ServeAnnotation+" of a pool overrides this flag")
	x := &f.extra
	s.StringVar(&x.server, "join-server", "", "`URL` of the API server for new machines. With this flag, each config "+
		"contains a bootstrap\nkubeconfig with a token for the machine, which expires after an hour")
	s.StringVar(&x.serverCA, "join-ca", "", "`file` with the CA of --join-server (default: the CA that this server "+
		"trusts)")
	s.StringVar(&x.kubeletCA, "kubelet-ca", "", "`file` with the CA of the kubelets' clients (default with "+
		"--join-server: the cluster's own)")
	s.StringVar(&x.cloudCA, "cloud-ca", "", "`file` with the CA of the cloud's services")
	s.StringArrayVar(&x.registryCAs, "registry-ca", nil, "`NAME=FILE`: the CA of a registry, by its host or "+
		"host:port, for machines and for this server; may be repeated")
	s.StringVar(&x.registryCredentials, "registry-credentials", "", "`file` with credentials for registries, as "+
		"docker login writes it. The server uses them to read files with\noci:// addresses for new machines")
	s.StringVar(&x.registriesConf, "registries-conf", "", "`file` with mirrors of registries, in the format of "+
		"registries.conf. The server also reads the files *.conf in the\n"+
		"directory FILE.d. It uses the mirrors for files with oci:// addresses")
	s.StringVar(&x.contentRegistry, "content-registry", "", "`repository` with the large files of configs: the value "+
		"of the controller's flag --content-registry")
	k := &f.keyService
	s.StringVar(&k.address, "key-service", "", "`address` of sops keyservice on this host, unix:///PATH or "+
		"tcp://127.0.0.1:PORT, for encrypted files\nwithout an age key of this server")
	s.StringArrayVar(&k.keys, "key-service-key", nil, "`key` for which the key service may be asked, such as \"kms "+
		"arn:aws:kms:…\", as messages name it; may be repeated")
	s.StringArrayVar(&x.daemons, "daemon", nil, "`file` with the binary of machine-config-daemon, for machines whose "+
		"pointer config installs it from this\nserver; may be repeated, once for each architecture")
	return s
}

func (f *accessFlags) set() *pflag.FlagSet {
	s := newSet()
	s.BoolVar(&f.open, "open", false, "serve every client, without a token")
	s.StringVar(&f.secrets, "secrets", secretsBound, "bound: only tokens and certificates of one node get the "+
		"secrets of a config; machines with\na pool's token get them after they have joined. all: every authorized "+
		"client gets the secrets")
	s.StringVar(&f.clientCA, "client-ca", "", "`file` with the CA of client certificates: organization "+
		"bunsen:pool:POOL, common name bunsen:node:NODE")
	s.StringSliceVar(&f.from, "allow-from", nil, "`networks` and addresses that may connect (default: all); this "+
		"host can always read /healthz and /readyz")
	s.StringVar(&f.audit, "audit-log", "", "`file` for one line of JSON for each response, - for the standard output")
	return s
}

func (f *limitFlags) set() *pflag.FlagSet {
	s, limits, bounds := newSet(), http.DefaultLimits(), http.DefaultBounds()
	s.Float64Var(&f.rate, "rate", limits.Requests.PerSecond, "requests per second without a valid token of a pool, of "+
		"one source (an IPv4 address, an IPv6 /64); 0: no limit")
	s.IntVar(&f.burst, "burst", limits.Requests.Burst, "burst of such requests of one source")
	s.Float64Var(&f.failureRate, "failure-rate", limits.Failures.PerSecond, "unauthorized requests per second of one "+
		"source; 0: no limit")
	s.IntVar(&f.failureBurst, "failure-burst", limits.Failures.Burst, "burst of unauthorized requests of one source")
	s.IntVar(&f.connections, "max-connections", bounds.Connections, "largest number of connections at a time, of all "+
		"sources together")
	s.Int64Var(&f.content, "content-cache", 2048, "largest size, in `MiB`, of the copies of files of the content "+
		"store and of registries below --cache-dir")
	s.IntVar(&f.perSource, "max-connections-per-source", bounds.PerSource, "largest number of connections at a time, "+
		"of one source, without those of valid tokens")
	return s
}

func (f *flags) listening() *pflag.FlagSet {
	s, t := newSet(), &f.tls
	s.StringVar(&t.listen, "listen", ":22623", "address and port to serve HTTPS on; without an address, on all "+
		"addresses of this host")
	s.StringVar(&t.metrics, "metrics-listen", "", "loopback `address` and port to serve Prometheus metrics on, over "+
		"plain HTTP (default: none)")
	s.StringSliceVar(&t.hostnames, "hostnames", nil, "names and addresses with which machines reach the server; the "+
		"server adds the loopback names")
	s.StringVar(&t.secret, "tls-secret", "", "`NAMESPACE/NAME` of the Secret with the certificate (default in a "+
		"cluster without --cert-dir:\n"+defaultSecret+")")
	s.StringVar(&t.dir, "cert-dir", "", "`folder` of ca.crt, ca.key, tls.crt and tls.key; with --tls-secret, a copy "+
		"for a start without an API server\n(default without a cluster: "+defaultCertDir+")")
	s.StringVar(&f.name, "name", "", "this server's `name` among the replicas (default: $POD_NAME, or the host's name)")
	s.DurationVar(&t.grace, "grace", time.Minute, "how long running requests may take when the server stops")
	return s
}

// The default Secret and the default directory with the server's certificate.
const (
	defaultSecret  = "bunsen-system/machine-config-server-tls"
	defaultCertDir = "/etc/bunsen/machine-config-server"
	// caName is the name of the Secret of the CA and of the ConfigMap with its certificate.
	caName = v1alpha1.ServerConfigMap
)

func newSet() *pflag.FlagSet {
	s := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.SortFlags = false
	return s
}

// usage prints the help with the flags in their groups.
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
