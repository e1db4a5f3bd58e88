package arch

import (
	"path"
	"slices"
	"strings"
)

// Kind says which I/O a room may do; ARCHITECTURE.md explains the letters.
type Kind string

const (
	// Pure rooms: no I/O, no clock, no log.
	Pure Kind = "P"
	// Reader rooms are deterministic readers of one rooted tree.
	Reader Kind = "P*"
	// Ports rooms do I/O only through interfaces that their callers pass.
	Ports Kind = "ports"
	// Data rooms contain constants and types.
	Data Kind = "D"
	// Shell rooms do I/O. Their names are those of the things that they access.
	Shell Kind = "S"
	// Mixed rooms hold a decision and the shell that carries it out. The files of shellFiles do I/O; what the others
	// import is as limited as in a pure room.
	Mixed Kind = "P+S"
	// Command rooms are commands and their parts: they read flags, construct shells and run them.
	Command Kind = "cmd"
	// Test rooms never ship.
	Test Kind = "test"
)

// free reports whether lines of this kind count as free of I/O.
func (k Kind) free() bool { return k == Pure || k == Reader || k == Ports || k == Data }

// shell reports whether a room of this kind does I/O in all or some of its files.
func (k Kind) shell() bool { return k == Shell || k == Mixed }

// Room is one row of the table of imports.
type Room struct {
	// Prefix is the package's directory. "dir/..." matches dir and everything below it.
	Prefix string
	Kind   Kind
	// Allowed are the project's own packages that it may import, in the form of Prefix.
	Allowed []string
	// Libraries are the third-party packages that it may import, by prefix; "*" is any.
	Libraries []string
	// Because is the reason for the row, which violations show.
	Because string
}

// kindOf returns which I/O a file of the room may do.
func (r Room) kindOf(file string) Kind {
	switch {
	case r.Kind != Mixed:
		return r.Kind
	case slices.Contains(shellFiles[r.Prefix], path.Base(file)):
		return Shell
	}
	return Pure
}

// The named sets of libraries: types and parsers without I/O for pure rooms, clients for shells.
var (
	kubeTypes = []string{"k8s.io/api/", "k8s.io/apimachinery/", "github.com/openshift/api/"}
	ignition  = []string{
		"github.com/coreos/ignition/v2/config/v3_", "github.com/coreos/ignition/v2/config/util",
		"github.com/coreos/ignition/v2/config/validate", "github.com/coreos/ignition/v2/config/merge",
		"github.com/coreos/ignition/v2/config/shared/", "github.com/coreos/ign-converter/",
		"github.com/coreos/vcontext/", "github.com/vincent-petithory/dataurl", "github.com/coreos/go-semver/",
	}
	yaml      = []string{"sigs.k8s.io/yaml", "go.yaml.in/yaml/v3", "gopkg.in/yaml.v3"}
	ignition2 = []string{
		"github.com/coreos/ignition/config/v2_", "github.com/coreos/ignition/config/util",
		"github.com/coreos/ignition/config/validate",
	}
	kubeClient = []string{"k8s.io/client-go/", "k8s.io/kubectl/pkg/drain", "sigs.k8s.io/controller-runtime"}
	anything   = []string{"*"}
)

// Rooms is the table of imports: which package may import which, and why. A package without a row is a violation: move
// it, or add a row with its reason.
var Rooms = []Room{
	{"api/fault", Data, nil, kubeTypes, "the kinds of failure are words, and which errors are answers is one table for every client"},
	{"api/ignition", Data, nil, ignition, "which version of Ignition configs have is one edit, so one room imports it"},
	{"api/v1alpha1", Data, list("api/fault"), kubeTypes, "the only words the three processes share, so it may not pull in any of them"},
	{"api/trustfile", Pure, list("api/v1alpha1"), nil, "the server chooses files from this table, the daemon checks them against it, and a policy must know their paths"},
	{"api/nodepath", Data, nil, nil, "the daemon owns some paths, files in others do not last, and every check of a config must know both"},
	{"api/safetext", Pure, nil, nil, "which characters are hidden, and how text is shown, is asked everywhere, so it lies below all of them"},
	{"api/textdiff", Pure, nil, nil, "reviews and drift reports show the same differences of texts"},
	{"api/machineconfig", Pure, list("api/fault", "api/ignition", "api/nodepath", "api/safetext", "api/v1alpha1"), libs(kubeTypes, ignition, yaml), "every process reads configs, their facts, their large files and their references to secrets in the same words, so it lies below all of them"},

	{"api/pinnedimage", Pure, nil, kubeTypes, "the repository, the controller and the daemon must accept the same images, and agree on the sets of a pool"},

	{"source", Pure, list("api/..."), libs(kubeTypes, list("github.com/Masterminds/semver/v3")), "picking a commit is arithmetic on listed refs"},
	{"source/verify", Pure, list("api/...", "source"), list("golang.org/x/crypto/", "github.com/ProtonMail/go-crypto/"), "a signature is right or wrong, whatever the network says"},
	{"reconcile/gitsource", Mixed, list("api/...", "reconcile/content", "reconcile/kube", "reconcile/pools", "reconcile/revision", "reconcile/status", "source", "source/verify", "transpile"), libs(kubeTypes, kubeClient, list("github.com/prometheus/")), "follows remotes through an interface that cmd fulfils, and applies a revision completely or not at all"},
	{"source/access", Mixed, list("api/...", "source"), list("golang.org/x/net/proxy"), "to which hosts a Secret's credentials may go follows from the Secret and the URL; certificates and proxies are the same for git, registries and token services"},
	{"source/tokens", Shell, list("api/...", "source", "source/access"), nil, "speaks the token services of GitHub and of cloud providers; knows nothing of git and registries"},
	{"source/oci", Mixed, list("api/...", "source", "source/access", "source/memory"), list("golang.org/x/crypto/nacl/secretbox", "golang.org/x/crypto/scrypt", "oras.land/oras-go/v2/", "github.com/opencontainers/"), "the only room that reads and writes artifacts of registries; whether a signature is right does not depend on the registry"},
	{"source/repository", Command, list("api/...", "source", "source/access", "source/git", "source/git/objects", "source/git/transport", "source/memory", "source/oci", "source/tokens"), list("github.com/google/renameio/v2", "golang.org/x/sys/"), "which reader and which credentials a source gets is decided once, for the controller, the server and bunsen"},
	{"source/memory", Ports, list("api/..."), list("golang.org/x/sync/"), "how much memory answers may hold does not depend on where they come from"},
	{"source/git", Mixed, list("api/...", "source", "source/git/objects", "source/git/transport", "source/memory"), list("github.com/go-git/", "golang.org/x/crypto/", "golang.org/x/sys/", "github.com/go-git/go-git/v5/config"), "the only room that reads git repositories"},
	{"source/git/transport", Mixed, list("api/...", "source", "source/access", "source/memory"), list("github.com/go-git/", "golang.org/x/crypto/"), "what git's requests look like, and over which connections they go; what is requested is decided elsewhere"},
	{"source/git/objects", Shell, list("api/..."), list("github.com/go-git/", "github.com/google/renameio/v2"), "objects on disk; knows nothing of remotes"},
	{"internal/results", Shell, nil, nil, "what pure steps returned is stored in one place, which trusts no byte of a file"},
	{"source/git/history", Shell, list("api/...", "source", "source/git", "source/git/objects"), list("github.com/go-git/"), "the last change of a line follows from the commits of a local repository; only commands for people need it"},

	{"transpile", Reader, list("api/...", "internal/disruption", "internal/secretmask", "source", "transpile/butane", "transpile/cluster", "transpile/kinds", "transpile/message", "transpile/origin", "transpile/overlay/...", "transpile/unit"), libs(kubeTypes, ignition, yaml), "a tree becomes fragments in the same way for the cluster and for a reviewer's laptop"},
	{"transpile/overlay", Reader, list("api/...", "transpile/message", "transpile/origin", "transpile/overlay/documents"), libs(yaml, list("sigs.k8s.io/kustomize/", "github.com/evanphx/json-patch")), "the only room that merges with kustomize; what a kustomization requests is read and checked before any document changes"},
	{"transpile/overlay/documents", Reader, list("transpile/origin"), yaml, "which kind a file declares, and how its lists merge, does not depend on patches; where a value was written follows from the text alone"},
	{"transpile/cluster", Reader, list("api/...", "internal/disruption", "internal/membership", "internal/schedule", "transpile/kinds", "transpile/origin", "transpile/overlay"), libs(kubeTypes, yaml), "whether an object of cluster/ is valid follows from the repository; what a CRD's schema refuses is known without an API server"},
	{"transpile/butane", Reader, list("api/...", "internal/sops/document", "transpile/message", "transpile/origin", "transpile/unit"), libs(kubeTypes, ignition, yaml, list("github.com/coreos/butane/")), "the only room that links Butane"},
	{"transpile/kinds", Pure, list("api/...", "internal/disruption", "transpile/message", "transpile/origin", "transpile/overlay/documents"), libs(kubeTypes, ignition, yaml, list("github.com/coreos/ignition/config/", "golang.org/x/crypto/ssh", "k8s.io/kubelet/config/")), "each kind of document becomes a config here, and only here Ignition 2 is linked"},
	{"transpile/message", Pure, list("api/machineconfig", "api/safetext"), nil, "messages of libraries are translated in one table"},
	{"transpile/unit", Pure, list("transpile/message", "transpile/origin"), nil, "what systemd ignores in a unit follows from its text"},
	{"transpile/origin", Pure, list("api/..."), nil, "provenance is bookkeeping; every step of the chain can afford it"},

	{"internal/disruption", Pure, list("api/...", "internal/distribution"), libs(ignition, kubeTypes, list("github.com/BurntSushi/toml")), "whether a change of registries.conf can move an image follows from the two files; what a change costs is asked by reconcile, mcd and review alike, so it lies below all of them"},
	{"internal/distribution", Pure, nil, nil, "what distributions differ in is one table, for the default policy, the daemon and the documentation"},
	{"internal/secretmask", Pure, nil, nil, "what is a secret is asked wherever a content is printed, served or compared, so it lies below all of them"},
	{"internal/sops", Mixed, list("api/safetext", "internal/sops/document"), libs(yaml, list("filippo.io/age")), "the only room that decrypts: the server and bunsen link it, the controller and the daemon do not"},
	{"internal/sops/document", Pure, nil, yaml, "which keys of an encrypted file changed is asked in reviews, where no key is"},
	{"internal/schedule", Pure, list("api/..."), libs(kubeTypes, list("github.com/robfig/cron/v3")), "whether a time lies in a window is arithmetic on calendars; how carefully a pool is rolled out is read once, for the check of a commit, the rollout, the drain and the preview alike"},
	{"internal/membership", Pure, nil, kubeTypes, "which pools a node is in decides what it is assigned and what it may read, in two processes"},
	{"reconcile/render", Mixed, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "reconcile/content", "reconcile/kube", "reconcile/pools", "reconcile/revision", "reconcile/rollout/poolstate", "reconcile/status", "source", "transpile", "transpile/kinds", "transpile/message", "transpile/origin"), libs(kubeTypes, ignition, yaml, kubeClient, list("golang.org/x/sync/")), "the cluster and the preview render with the same function, and what was merged before is remembered around it"},
	{"reconcile/revision", Mixed, list("api/..."), libs(kubeTypes, kubeClient), "render, rollout and drain wait for the same thing: one whole revision of each source; source, render, rollout and drain wait for the same objects"},
	{"reconcile/rollout/poolstate", Pure, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask"), kubeTypes, "what a node reports, and what it is to a rollout, follows from its Node; what a decision depends on follows from the pools and the policies"},
	{"reconcile/rollout", Mixed, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "reconcile/gate", "reconcile/health", "reconcile/kube", "reconcile/revision", "reconcile/rollout/...", "reconcile/status", "source"), libs(kubeTypes, kubeClient, list("github.com/hashicorp/golang-lru/v2", "golang.org/x/sync/")), "who is next follows from facts and now; the controller beside it gathers them and writes what was decided"},
	{"reconcile/pinning", Mixed, list("api/...", "internal/membership", "reconcile/kube", "reconcile/rollout/poolstate"), libs(kubeTypes, kubeClient), "which nodes pull images now follows from the sets and from what the nodes report; writes what reconcile/pinning decides"},
	{"reconcile/gate", Mixed, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "reconcile/kube", "reconcile/rollout/poolstate"), libs(kubeTypes, kubeClient, list("k8s.io/component-helpers/scheduling/corev1", "github.com/go-logr/logr", "github.com/prometheus/common/model", "github.com/prometheus/")), "whether a gate is open follows from what was read; reads what reconcile/gate evaluates"},
	{"reconcile/approve", Mixed, list("api/...", "reconcile/health", "reconcile/kube"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "whether a machine gets a certificate follows from the requests, the Nodes and now; carries out what reconcile/approve decides"},
	{"reconcile/drain", Mixed, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "reconcile/kube", "reconcile/revision"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "a verdict per pod follows from the pod; carries out what reconcile/drain decides"},
	{"reconcile/status", Pure, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "reconcile/drain", "reconcile/render", "reconcile/rollout/...", "source", "transpile"), kubeTypes, "the only place that builds conditions"},
	{"reconcile/notify", Mixed, list("api/...", "internal/forge", "internal/schedule", "reconcile/status", "source", "source/access"), libs(kubeTypes, kubeClient), "the only room of the cluster that writes to git hosts and chats, in a process of its own"},
	{"reconcile/pools", Shell, list("api/...", "internal/disruption", "reconcile/kube"), libs(kubeTypes, kubeClient), "what all pools have in common has one writer: the standard pools, the label keys, the disruption policy"},
	{"reconcile", Shell, list("api/...", "reconcile/approve", "reconcile/content", "reconcile/drain", "reconcile/garbage", "reconcile/gate", "reconcile/gitsource", "reconcile/health", "reconcile/kube", "reconcile/pinning", "reconcile/pools", "reconcile/render", "reconcile/rollout", "transpile"), libs(kubeTypes, kubeClient), "constructs the controllers; what each of them reads and writes is in its own package"},
	{"reconcile/controllertest", Test, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "reconcile/gate", "reconcile/kube", "source", "test/kstatus"), anything, "stands for a cluster and a repository in the tests of controllers"},
	{"reconcile/kube", Shell, list("api/...", "reconcile/revision", "source"), libs(kubeTypes, kubeClient, list("github.com/go-logr/logr")), "what every controller does with the API server is written once, below all of them"},
	{"reconcile/health", Shell, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "reconcile/gate", "reconcile/kube", "reconcile/rollout/...", "reconcile/status", "source"), libs(kubeTypes, kubeClient, list("github.com/go-logr/logr", "github.com/prometheus/")), "what Bunsen reports of itself follows from heartbeats, Leases and the reports of the controllers"},
	{"reconcile/content", Shell, list("api/..."), libs(kubeTypes, kubeClient), "the source, render and garbage controllers write the content store with it, so it lies below them"},
	{"reconcile/garbage", Shell, list("api/...", "reconcile/content", "reconcile/gitsource", "reconcile/kube", "reconcile/render", "source", "transpile"), libs(kubeTypes, kubeClient), "creates a lost config again by the functions of the source and render controllers"},
	{"internal/review", Reader, list("api/...", "internal/disruption", "internal/review/lineage", "internal/secretmask", "internal/sops", "internal/sops/document", "mcd/host", "mcd/plan", "mcs", "reconcile/drain", "reconcile/render", "reconcile/rollout/...", "reconcile/status", "source", "transpile", "transpile/origin"), libs(kubeTypes, ignition, yaml), "a preview is made of everybody's pure functions, and of no shell"},

	{"internal/review/report", Pure, list("api/...", "internal/disruption", "internal/review", "transpile"), nil, "a comparison or a finding is written by who knows all of it, and decided elsewhere"},
	{"internal/review/lineage", Pure, list("api/...", "internal/disruption", "internal/secretmask", "reconcile/render", "source", "transpile", "transpile/kinds", "transpile/message", "transpile/origin"), libs(kubeTypes, ignition), "who wrote a byte follows from the layers, as merging does"},
	{"internal/adopt", Reader, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "source", "transpile/butane", "transpile/kinds", "transpile/origin"), libs(kubeTypes, ignition, yaml), "documents of elsewhere become a repository's, and Ignition becomes Butane, in one place"},
	{"internal/forge", Mixed, list("api/..."), list("github.com/google/go-github/", "gitlab.com/gitlab-org/api/client-go", "code.gitea.io/sdk/gitea"), "the only room that speaks to git hosts; when to post and when to edit does not depend on which"},
	{"internal/forge/forgetest", Test, list("internal/forge"), nil, "stands for the services in tests"},

	{"internal/lsp", Mixed, list("api/...", "internal/disruption", "internal/review", "internal/review/lineage", "internal/review/report", "internal/schema", "internal/secretmask", "internal/sops", "internal/sops/document", "source", "transpile", "transpile/kinds", "transpile/message", "transpile/origin", "transpile/overlay/documents"), libs(kubeTypes, yaml, list("github.com/sourcegraph/jsonrpc2")), "what an editor shows at a position follows from the text and the last rendering; when to render, and the messages, are the shell's"},
	{"internal/schema", Pure, list("api/ignition", "config", "transpile/butane", "transpile/kinds"), libs(kubeTypes, list("k8s.io/kubelet/config/", "sigs.k8s.io/yaml")), "which keys a file may have follows from the types and CRDs that read it"},

	{"config", Data, nil, nil, "the manifests, for programs that install them"},
	{"internal/cli/install", Command, list("api/...", "config", "internal/cli", "internal/cli/kube", "internal/inspect/fleet", "internal/terminal"), anything, "what an installation needs follows from the manifests, the options and what was read from the cluster; applies what package install decides, and waits for it"},

	{"internal/cli/kube", Command, list("api/...", "internal/adopt", "internal/cli", "internal/inspect", "internal/inspect/fleet", "internal/inspect/history", "internal/review", "internal/terminal", "reconcile/rollout/poolstate", "source", "source/git", "transpile"), anything, "bunsen speaks to a cluster in one place, so that errors and permissions are explained once and a bundle is masked once"},

	{"internal/terminal", Pure, list("api/safetext"), nil, "how text fits on a terminal does not depend on what it says"},
	{"internal/inspect/fleet", Pure, list("api/...", "internal/disruption", "internal/distribution", "internal/membership", "internal/schedule", "internal/secretmask", "internal/terminal", "reconcile/rollout/...", "source"), libs(kubeTypes, list("github.com/maruel/natural")), "what a user reads of pools, nodes and components follows from their objects, and why a node waits is asked of the rollout itself"},
	{"internal/inspect", Pure, list("api/...", "internal/disruption", "internal/distribution", "internal/inspect/fleet", "internal/membership", "internal/schedule", "internal/secretmask", "internal/terminal", "reconcile/drain", "reconcile/rollout/...", "source"), kubeTypes, "why something waits, and what helps, follows from the fleet"},
	{"internal/inspect/history", Pure, list("api/...", "internal/disruption", "internal/inspect/fleet", "internal/terminal", "source"), kubeTypes, "what happened follows from what was recorded of it, and where a config comes from from its annotations"},
	{"internal/console/view", Ports, list("api/...", "internal/disruption", "internal/inspect/...", "internal/review/...", "internal/secretmask", "internal/terminal", "reconcile/drain", "reconcile/notify", "reconcile/rollout/...", "source", "transpile/kinds"), libs(kubeTypes, list("sigs.k8s.io/controller-runtime/pkg/client")), "what a page shows follows from the data that the command line prints, and from reads that the viewer hands in"},
	{"internal/console", Command, list("api/...", "internal/cli", "internal/cli/kube", "internal/console/...", "internal/inspect/..."), anything, "joins watches, sessions and pages, and serves them to browsers"},

	{"mcs", Ports, list("api/...", "internal/disruption", "internal/secretmask"), libs(kubeTypes, ignition, ignition2, yaml, list("golang.org/x/sync/", "github.com/hashicorp/golang-lru/v2")), "what a new machine gets follows from the rendered config and the request; where configs come from, and who may read them, is decided elsewhere"},
	{"mcs/join", Pure, list("api/...", "config", "mcs"), libs(kubeTypes, ignition, ignition2, yaml), "what a machine needs before it has a config follows from tokens, the server's URL and CA, and the daemon's binary"},
	{"mcs/secrets", Mixed, list("api/...", "mcs"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "what a config resolves to follows from the config, the objects and the keys; reads the secrets of configs from the API server, apart from the configs"},
	{"mcs/content", Mixed, list("api/...", "internal/download", "mcs"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/", "github.com/hashicorp/golang-lru/v2")), "which grants a machine gets, and which are valid, follows from keys and times; reads files of the content store and of registries, apart from who may read them"},
	{"mcs/cluster", Mixed, list("api/...", "internal/membership", "mcs", "mcs/join"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/", "github.com/hashicorp/golang-lru/v2")), "reads and writes the API server for machine-config-server, with a cache on disk"},
	{"mcs/trust", Mixed, list("api/...", "mcs"), libs(kubeTypes, kubeClient), "which certificates a pool gets follows from the objects, what was in force, and now; reads what nodes trust from the API server, apart from what they run"},
	{"mcs/http", Mixed, list("api/...", "mcs", "mcs/content", "mcs/join"), libs(kubeTypes, list("golang.org/x/time/rate", "github.com/hashicorp/golang-lru/v2", "github.com/prometheus/")), "routes, limits, authorization and the request log; what is served is decided in mcs"},
	{"mcs/certs", Shell, list("api/...", "mcs"), libs(kubeTypes, kubeClient), "stores and renews the server's certificates"},
	{"mcs/files", Shell, list("api/...", "mcs", "mcs/join"), libs(kubeTypes, yaml), "configs, tokens and added files for the server, from files: no cluster"},

	{"internal/fromgit", Shell, list("api/...", "internal/disruption", "internal/review", "internal/secretmask", "reconcile/render", "source", "source/verify", "transpile"), libs(kubeTypes, yaml), "a repository's rendered configs without a cluster, by the controllers' own pure functions"},

	{"mcd/host", Data, list("api/..."), nil, "the contract of a host: two implementations and one suite stand on it"},
	{"mcd/plan", Pure, list("api/...", "internal/disruption", "internal/distribution", "internal/secretmask", "mcd/host"), libs(ignition, kubeTypes), "what a config asks of a machine follows from the config and the machine's accounts; the difference of two states is arithmetic"},
	{"mcd/health", Pure, list("mcd/host"), nil, "whether a machine lives with its new config follows from what was seen of it"},
	{"mcd/drift", Mixed, list("api/...", "internal/disruption", "internal/secretmask", "mcd/apply", "mcd/host", "mcd/plan", "mcd/report"), libs(ignition, kubeTypes), "what to do about a difference follows from the difference, the policy and now; a drift scan needs no update, and commands on the node read what it found"},
	{"mcd/secrets", Mixed, list("api/...", "mcd/host", "mcd/plan", "mcd/report", "mcd/state"), ignition, "which contents of secrets a machine keeps follows from its configs and the server's answer; agent, trust and once put them into configs"},
	{"mcd/trust", Mixed, list("api/...", "internal/disruption", "internal/distribution", "mcd/apply", "mcd/host", "mcd/plan", "mcd/secrets"), ignition, "what a machine gets beside its config follows from the server's answer, and changes without an update"},
	{"mcd/metrics", Shell, nil, nil, "what the daemon counts, served on loopback; the agent tells it through an interface of its own"},
	{"mcd/once", Ports, list("api/...", "internal/disruption", "mcd/apply", "mcd/drift", "mcd/fetch", "mcd/host", "mcd/plan", "mcd/secrets", "mcd/state"), libs(kubeTypes, ignition, yaml), "one config on a machine that asks no cluster: once-from and first boot"},
	{"mcd/apply", Ports, list("api/...", "internal/distribution", "mcd/host", "mcd/plan"), kubeTypes, "walks a plan through the ports, so that a crash after any step can be tested"},
	{"mcd/linux/beneath", Shell, list("mcd/host"), list("golang.org/x/sys/"), "the only room that opens a machine's path: a user of the machine could lead any other way elsewhere"},
	{"mcd/linux/files", Shell, list("api/...", "mcd/fetch", "mcd/host", "mcd/linux/beneath"), list("golang.org/x/sys/"), "the only room that writes files of a machine; downloaded contents on a machine's disk, through its files"},
	{"mcd/linux/systemd", Shell, list("api/fault", "internal/distribution", "mcd/host", "mcd/linux/files"), list("github.com/coreos/go-systemd/v22/", "github.com/godbus/dbus/v5"), "units and reboots of a machine"},
	{"mcd/linux", Shell, list("api/nodepath", "internal/distribution", "mcd/host", "mcd/linux/files", "mcd/linux/image", "mcd/linux/machine", "mcd/linux/systemd"), list("golang.org/x/sys/"), "puts the parts of a real or simulated host together, with its accounts, its watches and its container runtime"},
	{"mcd/linux/machine", Shell, list("mcd/host", "mcd/linux/files"), nil, "what a machine is, and its own programs: image tools and boot loaders share it"},
	{"mcd/linux/image", Shell, list("api/machineconfig", "api/nodepath", "internal/distribution", "mcd/host", "mcd/linux/files", "mcd/linux/machine"), nil, "the OS of a machine, through its own rpm-ostree or bootc; the kernel arguments of a machine without an image, in the files of its boot loader"},
	{"mcd/host/hosttest", Test, list("api/...", "mcd/host"), anything, "stands for a host in tests; knows the contract, not its users"},
	{"mcd/fetch", Mixed, list("api/...", "internal/download", "mcd/host", "mcd/plan"), libs(ignition, kubeTypes), "what to download, and when contents count, is decided apart from HTTP and from disks, and needs no cluster"},
	{"mcd/images", Mixed, list("api/...", "mcd/report"), kubeTypes, "which images to pull, and in which order, is decided apart from the programs of a machine; pulls take long, so they run beside the agent"},
	{"mcd/agent", Shell, list("api/...", "internal/disruption", "mcd/apply", "mcd/drift", "mcd/fetch", "mcd/health", "mcd/host", "mcd/plan", "mcd/report", "mcd/secrets", "mcd/state", "mcd/trust"), kubeTypes, "watches one Node; the host is handed to it by cmd"},
	{"mcd/state", Mixed, list("api/...", "mcd/health", "mcd/host", "mcd/plan", "mcd/report"), kubeTypes, "the files that the agent and its health check store are in one place; the host is an argument"},
	{"mcd/report", Pure, list("api/...", "internal/disruption"), kubeTypes, "the annotations, events and MachineConfigNode of one node follow from how far the daemon is; agent and kube share them"},
	{"mcd/kube", Shell, list("api/...", "internal/disruption", "mcd/drift", "mcd/fetch", "mcd/health", "mcd/plan", "mcd/report"), libs(kubeTypes, kubeClient), "speaks to the API server and the etcd for one node; cmd hands it to the agent"},
	{"mcd/simulate", Shell, list("api/...", "mcd/host"), libs(kubeTypes, kubeClient), "keeps a simulated host's Node alive as a kubelet would"},
	{"mcd/process", Command, list("api/...", "internal/distribution", "internal/download", "mcd/agent", "mcd/fetch", "mcd/host", "mcd/images", "mcd/kube", "mcd/linux/...", "mcd/report", "mcd/state", "mcd/trust"), anything, "what a real and a simulated host connect their agent to is the same"},

	{"cmd/machine-config-controller", Command, list("api/...", "internal/disruption", "internal/distribution", "internal/download", "internal/forge/...", "internal/inspect", "internal/inspect/fleet", "internal/membership", "internal/schedule", "internal/secretmask", "reconcile/...", "source/...", "transpile/..."), anything, "wires source, transpile and reconcile, and gives the BunsenStatus the verdicts of `bunsen status`; server and daemon are other processes"},
	{"cmd/machine-config-server", Command, list("api/...", "internal/disruption", "internal/download", "internal/fromgit", "internal/sops", "mcs/...", "reconcile/gitsource", "source/..."), anything, "wires mcs, and a repository where there is no cluster; controller and daemon are other processes"},
	{"cmd/machine-config-daemon", Command, list("api/...", "internal/disruption", "internal/distribution", "mcd/agent", "mcd/apply", "mcd/drift", "mcd/fetch", "mcd/health", "mcd/host", "mcd/kube", "mcd/linux/...", "mcd/metrics", "mcd/once", "mcd/plan", "mcd/process", "mcd/report", "mcd/secrets", "mcd/state"), anything, "wires mcd; controller and server are other processes"},
	{"cmd/simulated-host", Command, list("api/...", "mcd/agent", "mcd/kube", "mcd/linux/...", "mcd/process", "mcd/simulate"), anything, "the daemon of a simulated host, which no real node has"},
	{"internal/cli", Command, list("api/safetext", "internal/terminal"), list("github.com/spf13/cobra", "golang.org/x/sys/windows", "golang.org/x/term", "sigs.k8s.io/yaml"), "exit codes and outputs are the same for every verb"},
	{"internal/download", Mixed, list("api/..."), libs(ignition, list("github.com/BurntSushi/toml", "golang.org/x/net/http/httpproxy")), "daemon, server and bunsen request the same bytes within the same limits; where the bytes go is decided elsewhere"},
	{"internal/cli/repository", Command, list("api/...", "examples", "internal/adopt", "internal/cli", "internal/cli/kube", "internal/disruption", "internal/download", "internal/forge", "internal/membership", "internal/results", "internal/review", "internal/review/lineage", "internal/review/report", "internal/secretmask", "internal/sops/...", "mcd/fetch", "mcd/host", "mcd/plan", "reconcile/drain", "reconcile/render", "reconcile/revision", "reconcile/rollout/poolstate", "source", "source/access", "source/git", "source/git/history", "source/oci", "source/repository", "transpile"), anything, "opens repositories and renders them with the controllers' pure functions, for the verbs without a cluster; the only room with the user's age keys"},
	{"internal/cli/machines", Command, list("api/...", "internal/cli", "internal/cli/kube", "internal/inspect", "internal/inspect/fleet", "internal/terminal", "mcs", "mcs/files", "mcs/join"), anything, "tokens and pointer configs, for a cluster or for files"},
	{"cmd/bunsen", Command, list("api/...", "internal/adopt", "internal/cli/...", "internal/console", "internal/forge", "internal/inspect/...", "internal/lsp", "internal/review", "internal/review/report", "internal/schema", "internal/secretmask", "mcs/join", "reconcile/render"), anything, "flags and help of the verbs; the offline verbs run the controllers' pure functions, not the controllers"},

	{"examples", Test, list("..."), anything, "every example is built by the code that will run it"},
	{"bench/...", Test, list("..."), anything, "measures any room"},
	{"test/kstatus", Test, nil, anything, "whether conditions follow kstatus is judged without the code that builds them"},
	{"test/...", Test, list("..."), anything, "tests may use every room"},
}

// roomOf returns the row of a directory: the one with the longest matching prefix.
func roomOf(table []Room, dir string) (Room, bool) {
	var best Room
	for _, r := range table {
		if covers(r.Prefix, dir) && len(r.Prefix) > len(best.Prefix) {
			best = r
		}
	}
	return best, best.Prefix != ""
}

// covers reports whether a prefix of the table matches a directory: exactly, or with "/..." as a subtree.
func covers(prefix, dir string) bool {
	if prefix == "..." {
		return true
	}
	base, subtree := strings.CutSuffix(prefix, "/...")
	return dir == base || subtree && strings.HasPrefix(dir, base+"/")
}

func coversAny(prefixes []string, dir string) bool {
	for _, p := range prefixes {
		if covers(p, dir) {
			return true
		}
	}
	return false
}

// list returns its arguments, to make the table's columns readable.
func list(prefixes ...string) []string { return prefixes }

// libs joins named sets of libraries.
func libs(sets ...[]string) []string { return slices.Concat(sets...) }
