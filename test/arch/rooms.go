package arch

import (
	"slices"
	"strings"
)

// Kind says how a room relates to the world; ARCHITECTURE.md explains the letters.
type Kind string

const (
	// Pure rooms: no I/O, no clock, no log.
	Pure Kind = "P"
	// Reader rooms are deterministic readers of one rooted tree.
	Reader Kind = "P*"
	// Ports rooms act on the world only through interfaces that they are given.
	Ports Kind = "ports"
	// Data rooms hold words and types.
	Data Kind = "D"
	// Shell rooms touch the world, and are named after the thing they touch.
	Shell Kind = "S"
	// Command rooms read flags, construct and run.
	Command Kind = "cmd"
	// Test rooms never ship.
	Test Kind = "test"
)

// free tells whether lines of this kind count as free of I/O.
func (k Kind) free() bool { return k == Pure || k == Reader || k == Ports || k == Data }

// Room is one row of the table of imports.
type Room struct {
	// Prefix is the package's directory; "dir/..." stands for everything below dir, dir included.
	Prefix string
	Kind   Kind
	// Allowed are the project's own packages that it may import, in the form of Prefix.
	Allowed []string
	// Libraries are the third-party packages that it may import, by prefix; "*" is any.
	Libraries []string
	// Because is the reason for the row, told to whoever breaks it.
	Because string
}

// The named sets of libraries: types and parsers without I/O for pure rooms, clients for shells.
var (
	kubeTypes  = []string{"k8s.io/api/", "k8s.io/apimachinery/", "github.com/openshift/api/"}
	ignition   = []string{"github.com/coreos/ignition/v2/config/v3_", "github.com/coreos/ignition/v2/config/util", "github.com/coreos/ignition/v2/config/validate", "github.com/coreos/ignition/v2/config/merge", "github.com/coreos/ignition/v2/config/shared/", "github.com/coreos/ign-converter/", "github.com/coreos/vcontext/", "github.com/vincent-petithory/dataurl", "github.com/coreos/go-semver/"}
	yaml       = []string{"sigs.k8s.io/yaml", "go.yaml.in/yaml/v3", "gopkg.in/yaml.v3", "github.com/ghodss/yaml"}
	ignition2  = []string{"github.com/coreos/ignition/config/v2_", "github.com/coreos/ignition/config/util", "github.com/coreos/ignition/config/validate"}
	kubeClient = []string{"k8s.io/client-go/", "k8s.io/kubectl/pkg/drain", "sigs.k8s.io/controller-runtime"}
	anything   = []string{"*"}
)

// Rooms is the table of imports: which package may import what, and why. A
// package that no row names fails: place it, or add a row with its reason.
var Rooms = []Room{
	{"api/fault", Data, nil, nil, "the three kinds of failure are words; words depend on nothing"},
	{"api/v1alpha1", Data, list("api/fault"), kubeTypes, "the only words the three processes share, so it may not pull in any of them"},
	{"api/safetext", Pure, nil, nil, "which characters are hidden, and how text is shown, is asked everywhere, so it lies below all of them"},
	{"api/machineconfig", Pure, list("api/fault", "api/safetext", "api/v1alpha1"), libs(kubeTypes, ignition, yaml), "render, policy, mcs and mcd read a MachineConfig's spec with it, so it lies below all of them"},

	{"source", Pure, list("api/..."), libs(kubeTypes, list("github.com/Masterminds/semver/v3")), "picking a commit is arithmetic on listed refs"},
	{"source/verify", Pure, list("api/...", "source"), list("golang.org/x/crypto/", "github.com/ProtonMail/go-crypto/"), "a signature is right or wrong, whatever the network says"},
	{"source/git", Shell, list("api/...", "source", "source/verify"), list("github.com/go-git/", "golang.org/x/crypto/"), "the only room that speaks git"},
	{"source/store", Shell, list("api/...", "source"), list("github.com/google/renameio/v2", "golang.org/x/sys/"), "trees on disk; knows nothing of remotes"},

	{"transpile", Reader, list("api/...", "policy", "policy/pace", "policy/secret", "source", "transpile/overlay", "transpile/butane", "transpile/origin", "transpile/containerruntime", "transpile/ignition", "transpile/kubelet", "transpile/message", "transpile/object", "transpile/schema", "transpile/sshkeys", "transpile/unit"), libs(kubeTypes, ignition, yaml), "tree to fragments: the same for the cluster and for a reviewer's laptop"},
	{"transpile/overlay", Reader, list("api/...", "transpile/message", "transpile/origin"), libs(yaml, list("sigs.k8s.io/kustomize/", "github.com/evanphx/json-patch")), "the only room that links kustomize"},
	{"transpile/butane", Reader, list("api/...", "transpile/message", "transpile/origin", "transpile/unit"), libs(kubeTypes, ignition, yaml, list("github.com/coreos/butane/")), "the only room that links Butane"},
	{"transpile/ignition", Pure, list("api/...", "transpile/message", "transpile/origin"), libs(kubeTypes, ignition, yaml, list("github.com/coreos/ignition/config/")), "Ignition of every version becomes 3.5.0 here; the only room that links Ignition 2"},
	{"transpile/message", Pure, nil, nil, "messages of libraries are translated in one table"},
	{"transpile/unit", Pure, list("transpile/message", "transpile/origin"), nil, "what systemd ignores in a unit follows from its text"},
	{"transpile/object", Pure, list("api/...", "transpile/origin"), libs(kubeTypes, yaml), "an object is read strictly, and its mistakes have lines"},
	{"transpile/schema", Pure, nil, nil, "what a CRD's schema refuses is known without an API server"},
	{"transpile/sshkeys", Pure, list("api/...", "transpile/object", "transpile/origin"), libs(kubeTypes, ignition, list("golang.org/x/crypto/ssh")), "who may log in is checked before a node gets it"},
	{"transpile/kubelet", Pure, list("api/...", "transpile/object", "transpile/origin"), libs(kubeTypes, ignition, yaml, list("k8s.io/kubelet/config/")), "the kubelet's settings become files"},
	{"transpile/containerruntime", Pure, list("api/...", "transpile/object", "transpile/origin"), libs(kubeTypes, ignition), "the settings of CRI-O become files"},
	{"transpile/origin", Pure, list("api/..."), nil, "provenance is bookkeeping; every step of the chain can afford it"},

	{"policy", Pure, list("api/..."), libs(kubeTypes, ignition, list("github.com/BurntSushi/toml")), "what a change costs is asked by reconcile, mcd and review alike, so it lies below all of them"},
	{"policy/secret", Pure, nil, nil, "what is a secret is asked wherever a content is printed, served or compared, so it lies below all of them"},
	{"policy/window", Pure, nil, list("github.com/robfig/cron/v3"), "whether a time lies in a window is arithmetic on calendars"},
	{"policy/pace", Pure, list("api/...", "policy/window"), kubeTypes, "how carefully a pool is rolled out is read once, for the check of a commit, the rollout, the drain and the preview alike"},
	{"reconcile/render", Pure, list("api/...", "policy", "source", "transpile", "transpile/ignition", "transpile/message", "transpile/origin"), libs(kubeTypes, ignition, yaml), "the cluster and the preview render with the same function"},
	{"reconcile/revision", Pure, list("api/..."), kubeTypes, "render, rollout and drain wait for the same thing: one whole revision of each source"},
	{"reconcile/rollout", Pure, list("api/...", "policy/..."), kubeTypes, "who is next follows from facts and now"},
	{"reconcile/drain", Pure, list("api/...", "policy/pace"), kubeTypes, "a verdict per pod follows from the pod"},
	{"reconcile/status", Pure, list("api/...", "policy/...", "source", "transpile", "reconcile/render", "reconcile/rollout", "reconcile/drain"), kubeTypes, "the only place that builds conditions"},
	{"reconcile/controller", Shell, list("api/...", "policy/...", "source", "source/verify", "transpile", "transpile/origin", "reconcile/render", "reconcile/revision", "reconcile/rollout", "reconcile/drain", "reconcile/status"), libs(kubeTypes, kubeClient, yaml, list("github.com/go-logr/logr", "golang.org/x/sync/", "github.com/prometheus/")), "talks to the cluster and, through interfaces of its own, to source/git and source/store; cmd wires them"},
	{"review", Pure, list("api/...", "policy", "policy/secret", "source", "transpile", "transpile/origin", "reconcile/render", "reconcile/rollout", "reconcile/drain", "reconcile/status", "review/lineage", "mcs", "mcd/plan", "mcd/host"), libs(kubeTypes, ignition, yaml), "a preview is made of everybody's pure functions, and of no shell"},

	{"review/annotate", Pure, list("api/...", "transpile"), list("github.com/owenrumney/go-sarif/v3/"), "a finding is written for each system that shows it; what it says is decided elsewhere"},
	{"review/lineage", Pure, list("api/...", "policy", "policy/secret", "source", "transpile", "transpile/ignition", "transpile/message", "transpile/origin", "reconcile/render"), libs(kubeTypes, ignition), "who wrote a byte follows from the layers, as merging does"},
	{"adopt/tree", Reader, list("api/...", "adopt", "policy", "policy/secret", "source", "transpile/butane", "transpile/ignition", "transpile/origin"), libs(kubeTypes, ignition, yaml), "Butane files of elsewhere become a repository's documents"},
	{"adopt", Pure, list("api/...", "policy", "policy/secret", "policy/pace", "transpile/containerruntime", "transpile/ignition", "transpile/kubelet", "transpile/origin"), libs(kubeTypes, ignition, yaml), "MachineConfigs of elsewhere become a repository's documents"},
	{"forge", Ports, list("api/..."), nil, "when to post and when to edit does not depend on the service"},
	{"forge/github", Shell, list("forge"), list("github.com/google/go-github/"), "the only room that speaks to GitHub"},
	{"forge/gitlab", Shell, list("forge"), list("gitlab.com/gitlab-org/api/client-go"), "the only room that speaks to GitLab"},
	{"forge/gitea", Shell, list("forge"), list("code.gitea.io/sdk/gitea"), "the only room that speaks to Gitea and Forgejo"},
	{"forge/forgetest", Test, list("forge"), nil, "stands for the services in tests"},

	{"inspect", Pure, list("api/...", "policy/...", "source", "reconcile/rollout", "reconcile/drain"), kubeTypes, "what a person reads of a cluster follows from its objects; why a node waits is asked of the rollout itself"},

	{"mcs", Pure, list("api/...", "policy", "policy/secret"), libs(kubeTypes, ignition, ignition2, yaml), "what a new machine gets follows from the rendered config and the request"},
	{"mcs/shelf", Pure, list("api/...", "mcs"), kubeTypes, "bodies are made once and shared; where they come from and who gets them is decided elsewhere"},
	{"mcs/token", Pure, list("api/..."), kubeTypes, "whether a token is good follows from what is kept of it and from now"},
	{"mcs/pointer", Pure, list("api/...", "mcs", "mcs/token"), libs(ignition, ignition2, yaml), "what a machine is handed at birth follows from where the server is and whom to believe"},
	{"mcs/http", Shell, list("api/...", "mcs", "mcs/shelf", "mcs/token"), libs(kubeTypes, list("golang.org/x/time/rate", "golang.org/x/net/netutil", "github.com/hashicorp/golang-lru/v2", "github.com/prometheus/")), "routes, bounds, who may ask, the record of it; mcs decides the answer"},
	{"mcs/certs", Shell, list("api/...", "mcs"), libs(kubeTypes, kubeClient), "keeps the certificates that the server shows"},
	{"mcs/cluster", Shell, list("api/...", "mcs", "mcs/shelf", "mcs/token"), libs(kubeTypes, kubeClient), "speaks to the API server for the server of configs"},
	{"mcs/cache", Shell, list("api/...", "mcs"), kubeTypes, "the last known configs and tokens on a disk, for the next start without an API server"},
	{"mcs/files", Shell, list("api/...", "mcs", "mcs/shelf", "mcs/token"), libs(kubeTypes, yaml), "what the server offers and whom it believes, from files: no cluster"},

	{"bootstrap", Shell, list("api/...", "policy", "policy/secret", "source", "source/verify", "transpile", "reconcile/render", "review"), libs(kubeTypes, yaml), "a repository's rendered configs without a cluster, by the controllers' own pure functions"},

	{"mcd/host", Data, list("api/..."), nil, "the contract of a host: two implementations and one suite stand on it"},
	{"mcd/plan", Pure, list("api/...", "policy", "policy/secret", "mcd/host"), libs(ignition, kubeTypes), "the difference of two states is arithmetic"},
	{"mcd/health", Pure, list("mcd/host"), nil, "whether a machine lives with its new config follows from what was seen of it"},
	{"mcd/drift", Pure, list("api/...", "policy", "policy/secret", "mcd/host", "mcd/plan"), libs(ignition, kubeTypes, list("github.com/pmezard/go-difflib")), "what to do about a difference follows from the difference, the policy and now"},
	{"mcd/metrics", Shell, nil, nil, "what the daemon counts, served on loopback; the agent tells it through an interface of its own"},
	{"mcd/record", Ports, list("api/...", "policy/secret", "mcd/host", "mcd/plan"), kubeTypes, "agent, once-from and the next daemon read one record"},
	{"mcd/once", Ports, list("api/...", "policy", "mcd/host", "mcd/plan", "mcd/apply", "mcd/drift", "mcd/record"), libs(kubeTypes, ignition, yaml), "one config on a machine that asks no cluster: once-from and first boot"},
	{"mcd/apply", Ports, list("api/...", "mcd/host", "mcd/plan"), nil, "walks a plan through the ports, so that a crash after any step can be tested"},
	{"mcd/host/linux/beneath", Shell, list("mcd/host"), list("golang.org/x/sys/"), "the only room that opens a machine's path: a user of the machine could lead any other way elsewhere"},
	{"mcd/host/linux", Shell, list("api/...", "mcd/host", "mcd/host/linux/beneath"), list("github.com/coreos/go-systemd/v22/", "github.com/godbus/dbus/v5", "github.com/google/renameio/v2", "golang.org/x/sys/"), "the only room that changes a machine"},
	{"mcd/host/hosttest", Test, list("api/...", "mcd/host"), anything, "stands for a host in tests; knows the contract, not its users"},
	{"mcd/agent", Shell, list("api/...", "policy", "mcd/host", "mcd/plan", "mcd/apply", "mcd/drift", "mcd/health", "mcd/progress", "mcd/protocol", "mcd/record"), kubeTypes, "watches one Node; the host is handed to it by cmd"},
	{"mcd/protocol", Pure, list("api/..."), nil, "what a Node and its events say, shared by the agent and by whoever speaks for it to the cluster"},
	{"mcd/progress", Pure, list("api/...", "policy", "mcd/protocol"), kubeTypes, "what a MachineConfigNode says follows from where the daemon is"},
	{"mcd/agent/kube", Shell, list("api/...", "policy", "mcd/drift", "mcd/health", "mcd/plan", "mcd/progress", "mcd/protocol"), libs(kubeTypes, kubeClient), "speaks to the API server for one node; cmd hands it to the agent"},
	{"mcd/simulate", Shell, list("api/...", "mcd/host"), libs(kubeTypes, kubeClient), "keeps a simulated host's Node alive as a kubelet would"},

	{"cmd/machine-config-controller", Command, list("api/...", "policy/...", "source/...", "transpile/...", "reconcile/..."), anything, "wires source, transpile and reconcile; server and daemon are other processes"},
	{"cmd/machine-config-server", Command, list("api/...", "policy", "mcs/...", "bootstrap", "source/..."), anything, "wires mcs, and a repository where there is no cluster; controller and daemon are other processes"},
	{"cmd/machine-config-daemon", Command, list("api/...", "policy", "mcd/host", "mcd/host/linux", "mcd/plan", "mcd/apply", "mcd/drift", "mcd/health", "mcd/agent/...", "mcd/metrics", "mcd/once", "mcd/progress", "mcd/protocol", "mcd/record", "mcd/simulate"), anything, "wires mcd; controller and server are other processes"},
	{"cmd/bunsen", Command, list("api/...", "policy/...", "source/...", "transpile/...", "reconcile/render", "reconcile/rollout", "reconcile/drain", "reconcile/status", "review/...", "adopt", "adopt/tree", "forge/...", "inspect", "mcs", "mcs/token", "mcs/pointer", "mcd/plan", "mcd/host"), anything, "the offline verbs run the controllers' pure functions, not the controllers"},

	{"examples", Test, list("..."), anything, "every example is built by the code that will run it"},
	{"bench/...", Test, list("..."), anything, "measures any room"},
	{"test/...", Test, list("..."), anything, "tests may use every room"},
}

// roomOf finds the row of a directory: the longest prefix that covers it.
func roomOf(table []Room, dir string) (Room, bool) {
	var best Room
	for _, r := range table {
		if covers(r.Prefix, dir) && len(r.Prefix) > len(best.Prefix) {
			best = r
		}
	}
	return best, best.Prefix != ""
}

// covers tells whether a prefix of the table covers a directory: exactly, or with "/..." as a whole subtree.
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

// list makes the table's columns readable.
func list(prefixes ...string) []string { return prefixes }

// libs joins named sets of libraries.
func libs(sets ...[]string) []string { return slices.Concat(sets...) }
