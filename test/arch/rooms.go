package arch

import (
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
	// Command rooms are commands and their parts: they read flags, construct shells and run them.
	Command Kind = "cmd"
	// Test rooms never ship.
	Test Kind = "test"
)

// free reports whether lines of this kind count as free of I/O.
func (k Kind) free() bool { return k == Pure || k == Reader || k == Ports || k == Data }

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
	{"api/v1alpha1", Data, list("api/fault"), kubeTypes, "the only words the three processes share, so it may not pull in any of them"},
	{"api/trustfile", Pure, list("api/v1alpha1"), nil, "the server chooses files from this table, the daemon checks them against it, and a policy must know their paths"},
	{"api/nodepath", Data, nil, nil, "the daemon owns some paths, files in others do not last, and every check of a config must know both"},
	{"api/safetext", Pure, nil, nil, "which characters are hidden, and how text is shown, is asked everywhere, so it lies below all of them"},
	{"api/textdiff", Pure, nil, nil, "reviews and drift reports show the same differences of texts"},
	{"api/machineconfig", Pure, list("api/fault", "api/nodepath", "api/safetext", "api/v1alpha1"), libs(kubeTypes, ignition, yaml), "render, policy, mcs and mcd read a MachineConfig's spec with it, so it lies below all of them"},
	{"api/contentstore", Pure, list("api/machineconfig", "api/nodepath", "api/nodetable", "api/secretref", "api/v1alpha1"), libs(kubeTypes, ignition), "the repository and render decide which files move with it, the controller writes the objects of large files, the server reads them, so it lies below both"},
	{"api/secretref", Pure, list("api/machineconfig"), libs(ignition), "the repository writes references to secrets, the server resolves them, the daemon puts the values in, so it lies below all of them"},

	{"api/pinnedimage", Pure, nil, kubeTypes, "the repository, the controller and the daemon must accept the same images, and agree on the sets of a pool"},
	{"api/nodetable", Pure, list("api/machineconfig", "api/safetext", "api/secretref", "api/v1alpha1"), libs(kubeTypes, ignition), "the repository writes facts of nodes, and render puts them into documents, so it lies below both"},

	{"source", Pure, list("api/..."), libs(kubeTypes, list("github.com/Masterminds/semver/v3")), "picking a commit is arithmetic on listed refs"},
	{"source/verify", Pure, list("api/...", "source"), list("golang.org/x/crypto/", "github.com/ProtonMail/go-crypto/"), "a signature is right or wrong, whatever the network says"},
	{"source/webhook", Pure, list("api/..."), nil, "a request is signed or not, and names refs, whoever receives it"},
	{"source/credentials", Pure, list("source"), nil, "to which hosts a Secret's credentials may go follows from the Secret and the URL"},
	{"source/dial", Shell, list("api/...", "source", "source/credentials"), list("golang.org/x/net/proxy"), "certificates and proxies are the same for git, registries and token services"},
	{"source/githubapp", Shell, list("api/...", "source", "source/credentials"), nil, "speaks GitHub's API for tokens; knows nothing of git"},
	{"source/archive", Ports, list("api/...", "source"), nil, "which files an archive gives follows from its bytes; the caller stores them"},
	{"source/cosign", Pure, list("api/..."), list("golang.org/x/crypto/nacl/secretbox", "golang.org/x/crypto/scrypt"), "a signature is right or wrong, whatever the registry says"},
	{"source/oci", Shell, list("api/...", "source", "source/memory", "source/archive", "source/cosign", "source/credentials"), list("oras.land/oras-go/v2/", "github.com/opencontainers/"), "the only room that reads and writes OCI registries"},
	{"source/cloud", Shell, list("api/...", "source"), nil, "speaks the token services of cloud providers; knows nothing of git and registries"},
	{"source/connect", Command, list("api/...", "source", "source/memory", "source/cloud", "source/credentials", "source/cosign", "source/dial", "source/git", "source/git/transport", "source/githubapp", "source/oci", "source/store"), nil, "which reader and which credentials a source gets is decided once, for the controller and the server"},
	{"source/memory", Ports, list("api/..."), list("golang.org/x/sync/"), "how much memory answers may hold does not depend on where they come from"},
	{"source/polling", Ports, list("source"), nil, "whether a listing of another source counts is decided on times and names; the caller lists"},
	{"source/git", Shell, list("api/...", "source", "source/memory", "source/git/commits", "source/git/files", "source/git/objects", "source/git/submodule", "source/git/transport", "source/git/wire"), list("github.com/go-git/", "golang.org/x/crypto/"), "the only room that reads git repositories"},
	{"source/git/files", Shell, list("source"), list("github.com/go-git/", "golang.org/x/sys/"), "files on disk; knows nothing of commits and remotes"},
	{"source/git/commits", Shell, list("source", "source/git/objects"), list("github.com/go-git/"), "the relation of two commits follows from fetched commits; it knows nothing of remotes"},
	{"source/git/submodule", Pure, list("api/safetext", "source"), list("github.com/go-git/go-git/v5/config"), "which repository a submodule is follows from a file of the commit and the address of its repository"},
	{"source/git/wire", Pure, list("api/...", "source"), nil, "what a request and an answer of git look like does not depend on the connection"},
	{"source/git/transport", Shell, list("api/...", "source", "source/memory", "source/credentials", "source/git/wire"), list("github.com/go-git/", "golang.org/x/crypto/"), "credentials and connections; what is requested is decided elsewhere"},
	{"source/git/objects", Shell, list("api/..."), list("github.com/go-git/", "github.com/google/renameio/v2"), "objects on disk; knows nothing of remotes"},
	{"source/git/history", Shell, list("api/...", "source", "source/git", "source/git/objects"), list("github.com/go-git/"), "the last change of a line follows from the commits of a local repository; only commands for people need it"},
	{"source/store", Shell, list("api/...", "source"), list("github.com/google/renameio/v2", "golang.org/x/sys/"), "trees on disk; knows nothing of remotes"},

	{"transpile", Reader, list("api/...", "internal/policy", "internal/policy/secret", "source", "transpile/cluster", "transpile/overlay/...", "transpile/butane", "transpile/origin", "transpile/containerruntime", "transpile/ignition", "transpile/kubelet", "transpile/largefile", "transpile/lint", "transpile/message", "transpile/nodefacts", "transpile/object", "transpile/place", "transpile/references", "transpile/registries", "transpile/sshkeys", "transpile/unit"), libs(kubeTypes, ignition, yaml), "tree to fragments: the same for the cluster and for a reviewer's laptop"},
	{"transpile/overlay", Reader, list("transpile/origin", "transpile/overlay/documents", "transpile/overlay/kustomization", "transpile/overlay/yamltree"), libs(yaml, list("sigs.k8s.io/kustomize/", "github.com/evanphx/json-patch")), "the only room that merges with kustomize"},
	{"transpile/overlay/kustomization", Reader, list("api/...", "transpile/message", "transpile/origin", "transpile/overlay/documents", "transpile/overlay/yamltree"), libs(yaml, list("sigs.k8s.io/kustomize/")), "what a kustomization requests is read and checked before any document changes"},
	{"transpile/overlay/documents", Reader, list("transpile/origin", "transpile/overlay/yamltree"), yaml, "which kind a file declares, and how its lists merge, does not depend on patches"},
	{"transpile/overlay/yamltree", Pure, list("transpile/origin"), yaml, "where a value was written follows from the text alone"},
	{"transpile/cluster", Reader, list("api/...", "internal/policy", "internal/policy/membership", "internal/policy/pace", "transpile/kubelet", "transpile/object", "transpile/origin", "transpile/overlay/kustomization", "transpile/schema"), libs(kubeTypes, yaml), "whether an object of cluster/ is valid follows from the repository"},
	{"transpile/references", Pure, list("api/...", "transpile/origin"), ignition, "which references are valid follows from the config, whatever kind of document it was"},
	{"transpile/largefile", Pure, list("api/...", "transpile/origin"), kubeTypes, "which files are too large follows from the config, whatever kind of document it was"},
	{"transpile/butane", Reader, list("api/...", "internal/sops/document", "transpile/message", "transpile/origin", "transpile/unit"), libs(kubeTypes, ignition, yaml, list("github.com/coreos/butane/")), "the only room that links Butane"},
	{"transpile/ignition", Pure, list("api/...", "transpile/message", "transpile/origin"), libs(kubeTypes, ignition, yaml, list("github.com/coreos/ignition/config/")), "Ignition of every version becomes 3.5.0 here; the only room that links Ignition 2"},
	{"transpile/lint", Reader, list("api/...", "transpile/origin", "transpile/sshkeys", "transpile/unit"), ignition, "warnings about a config need its values and their places, and nothing of how it was made"},
	{"transpile/nodefacts", Pure, list("api/...", "internal/policy", "transpile/origin", "transpile/overlay/yamltree"), libs(kubeTypes, yaml), "what a table says about nodes follows from its text"},
	{"transpile/place", Pure, list("api/...", "internal/policy"), nil, "which value a problem is about follows from its text"},
	{"transpile/message", Pure, nil, nil, "messages of libraries are translated in one table"},
	{"transpile/unit", Pure, list("transpile/message", "transpile/origin"), nil, "what systemd ignores in a unit follows from its text"},
	{"transpile/object", Pure, list("api/...", "transpile/origin"), libs(kubeTypes, ignition, yaml), "objects are read strictly, and become configs, with a line for each error and value"},
	{"transpile/schema", Pure, nil, nil, "what a CRD's schema refuses is known without an API server"},
	{"transpile/sshkeys", Pure, list("api/...", "transpile/object", "transpile/origin"), libs(kubeTypes, ignition, list("golang.org/x/crypto/ssh")), "who may log in is checked before a node gets it"},
	{"transpile/kubelet", Pure, list("api/...", "transpile/object", "transpile/origin"), libs(kubeTypes, ignition, yaml, list("k8s.io/kubelet/config/")), "the kubelet's settings become files"},
	{"transpile/containerruntime", Pure, list("api/...", "transpile/object", "transpile/origin"), libs(kubeTypes, ignition), "the settings of CRI-O become files"},
	{"transpile/registries", Pure, list("api/...", "transpile/containerruntime", "transpile/object", "transpile/origin"), libs(kubeTypes, ignition), "where images come from is said once, for every container runtime"},
	{"transpile/origin", Pure, list("api/..."), nil, "provenance is bookkeeping; every step of the chain can afford it"},

	{"internal/policy/registries", Pure, list("api/..."), libs(ignition, list("github.com/BurntSushi/toml")), "whether a change of registries.conf can move an image follows from the two files"},
	{"internal/policy/distribution", Pure, nil, nil, "what distributions differ in is one table, for the default policy, the daemon and the documentation"},
	{"internal/policy", Pure, list("api/...", "internal/policy/distribution", "internal/policy/registries"), libs(kubeTypes, ignition), "what a change costs is asked by reconcile, mcd and review alike, so it lies below all of them"},
	{"internal/policy/secret", Pure, nil, nil, "what is a secret is asked wherever a content is printed, served or compared, so it lies below all of them"},
	{"internal/sops/rules", Pure, list("internal/sops/document"), yaml, "which keys a file is encrypted for follows from the repository, with and without keys"},
	{"internal/sops/document", Pure, nil, yaml, "which keys of an encrypted file changed is asked in reviews, where no key is"},
	{"internal/sops/keyservice", Shell, list("api/safetext", "internal/sops/document"), nil, "the server and the command line ask a key service in the same words; for which keys is decided in internal/sops"},
	{"internal/sops", Pure, list("internal/sops/document"), list("filippo.io/age"), "the only room that decrypts: the server and the command line link it, the controller and the daemon do not"},
	{"internal/policy/window", Pure, nil, list("github.com/robfig/cron/v3"), "whether a time lies in a window is arithmetic on calendars"},
	{"internal/policy/pace", Pure, list("api/...", "internal/policy/window"), kubeTypes, "how carefully a pool is rolled out is read once, for the check of a commit, the rollout, the drain and the preview alike"},
	{"internal/policy/membership", Pure, nil, kubeTypes, "which pools a node is in decides what it is assigned and what it may read, in two processes"},
	{"reconcile/render", Pure, list("api/...", "internal/policy", "internal/policy/secret", "source", "transpile", "transpile/ignition", "transpile/message", "transpile/origin"), libs(kubeTypes, ignition, yaml), "the cluster and the preview render with the same function"},
	{"reconcile/render/cache", Pure, list("reconcile/render"), kubeTypes, "what was merged before is remembered around the merge, so that the merge stays plain"},
	{"reconcile/revision", Pure, list("api/..."), kubeTypes, "render, rollout and drain wait for the same thing: one whole revision of each source"},
	{"reconcile/rollout/nodestate", Pure, list("api/...", "internal/policy/membership"), kubeTypes, "what a node reports, and what it is to a rollout, follows from its Node"},
	{"reconcile/rollout/poolstate", Pure, list("api/...", "internal/policy/...", "reconcile/rollout/nodestate"), kubeTypes, "what a decision depends on follows from the pools and the policies"},
	{"reconcile/rollout/nodemark", Pure, list("api/...", "reconcile/rollout/nodestate", "reconcile/rollout/poolstate"), nil, "labels, taints and downloads follow from the nodes and from who is assigned a config"},
	{"reconcile/rollout", Pure, list("api/...", "internal/policy/...", "reconcile/rollout/nodemark", "reconcile/rollout/nodestate", "reconcile/rollout/poolstate"), kubeTypes, "who is next follows from facts and now"},
	{"reconcile/pinning", Pure, list("api/...", "reconcile/rollout/nodestate"), kubeTypes, "which nodes pull images now follows from the sets and from what the nodes report"},
	{"reconcile/gate", Pure, list("api/...", "internal/policy/...", "reconcile/rollout/poolstate"), libs(kubeTypes, list("k8s.io/component-helpers/scheduling/corev1", "github.com/go-logr/logr", "github.com/prometheus/common/model")), "whether a gate is open follows from what was read"},
	{"reconcile/approve", Pure, list("api/..."), kubeTypes, "whether a machine gets a certificate follows from the requests, the Nodes and now"},
	{"reconcile/drain", Pure, list("api/...", "internal/policy/pace"), kubeTypes, "a verdict per pod follows from the pod"},
	{"reconcile/status", Pure, list("api/...", "internal/policy/...", "source", "transpile", "reconcile/render", "reconcile/rollout/...", "reconcile/drain"), kubeTypes, "the only place that builds conditions"},
	{"reconcile/notify", Pure, list("api/...", "internal/policy/window", "source"), kubeTypes, "what a receiver gets follows from the objects of the cluster and from what it has"},
	{"reconcile/poollabels", Shell, nil, libs(kubeTypes, kubeClient), "the admission policy for labels of Nodes reads one ConfigMap, which has one writer"},
	{"reconcile/controller", Shell, list("api/...", "transpile", "reconcile/render", "reconcile/render/cache", "reconcile/controller/applier", "reconcile/controller/approval", "reconcile/controller/contents", "reconcile/controller/daemons", "reconcile/controller/disruption", "reconcile/controller/draining", "reconcile/controller/garbage", "reconcile/controller/gates", "reconcile/controller/gitsource", "reconcile/controller/heartbeat", "reconcile/controller/kube", "reconcile/controller/metrics", "reconcile/controller/pinning", "reconcile/controller/rendering", "reconcile/controller/rollouts", "reconcile/controller/standardpools", "reconcile/controller/summary", "reconcile/controller/webhook"), libs(kubeTypes, kubeClient), "constructs the controllers; what each of them reads and writes is in its own package"},
	{"reconcile/controller/controllertest", Test, list("api/...", "internal/policy/...", "source", "reconcile/controller/kube", "reconcile/gate", "test/kstatus"), anything, "stands for a cluster and a repository in the tests of controllers"},
	{"reconcile/controller/kube", Shell, list("api/...", "source", "reconcile/revision"), libs(kubeTypes, kubeClient, list("github.com/go-logr/logr")), "what every controller does with the API server is written once, below all of them"},
	{"reconcile/controller/clusterstate", Shell, list("api/...", "reconcile/revision"), libs(kubeTypes, kubeClient), "source, render, rollout and drain wait for the same objects"},
	{"reconcile/controller/standardpools", Shell, list("api/...", "reconcile/controller/kube"), libs(kubeTypes, kubeClient), "the two pools that every cluster has are created and restored in one place"},
	{"reconcile/controller/disruption", Shell, list("api/...", "internal/policy", "reconcile/controller/kube"), libs(kubeTypes, kubeClient), "the daemons read one merged policy"},
	{"reconcile/controller/daemons", Shell, list("api/...", "reconcile/rollout/nodestate"), libs(kubeTypes, kubeClient), "rollout and metrics read the heartbeats of daemons once"},
	{"reconcile/controller/summary", Shell, list("api/...", "reconcile/rollout/nodestate", "reconcile/status", "reconcile/controller/daemons", "reconcile/controller/kube"), libs(kubeTypes, kubeClient), "reads what reconcile/status summarizes"},
	{"reconcile/controller/heartbeat", Shell, list("api/..."), libs(kubeTypes, kubeClient, list("github.com/go-logr/logr")), "a replica reports through its own Lease"},
	{"reconcile/controller/metrics", Shell, list("api/...", "internal/policy/...", "source", "reconcile/gate", "reconcile/rollout/...", "reconcile/controller/daemons", "reconcile/controller/kube"), libs(kubeTypes, kubeClient, list("github.com/prometheus/")), "metrics follow from the objects of the cluster and from reports of the controllers"},
	{"reconcile/controller/nodeconfigs", Shell, list("api/..."), kubeTypes, "which config each node of a pool runs comes with the events of rendered configs"},
	{"reconcile/controller/approval", Shell, list("api/...", "reconcile/approve", "reconcile/controller/kube", "reconcile/controller/metrics"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "carries out what reconcile/approve decides"},
	{"reconcile/controller/draining", Shell, list("api/...", "internal/policy/...", "reconcile/drain", "reconcile/revision", "reconcile/controller/clusterstate", "reconcile/controller/kube"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "carries out what reconcile/drain decides"},
	{"reconcile/controller/contents", Shell, list("api/..."), libs(kubeTypes, kubeClient), "the source, render and garbage controllers write the content store with it, so it lies below them"},
	{"reconcile/controller/gates", Shell, list("api/...", "internal/policy/...", "reconcile/gate", "reconcile/rollout/poolstate", "reconcile/controller/kube"), libs(kubeTypes, kubeClient, list("github.com/prometheus/")), "reads what reconcile/gate evaluates"},
	{"reconcile/controller/applier", Shell, list("api/...", "source", "transpile", "reconcile/revision", "reconcile/status", "reconcile/controller/clusterstate", "reconcile/controller/contents", "reconcile/controller/kube", "reconcile/controller/standardpools"), libs(kubeTypes, kubeClient), "writes a revision completely or not at all; knows nothing of remotes"},
	{"reconcile/controller/notifying", Shell, list("api/...", "internal/forge", "source", "source/credentials", "reconcile/notify", "reconcile/status"), libs(kubeTypes, kubeClient), "the only room of the cluster that writes to git hosts and chats; it runs in a process of its own"},
	{"reconcile/controller/webhook", Shell, list("api/...", "source/webhook"), libs(kubeTypes, kubeClient, list("github.com/prometheus/")), "writes a hint; knows nothing of remotes"},
	{"reconcile/controller/gitsource", Shell, list("api/...", "source", "source/verify", "source/webhook", "transpile", "reconcile/revision", "reconcile/status", "reconcile/controller/applier", "reconcile/controller/kube", "reconcile/controller/standardpools"), libs(kubeTypes, kubeClient), "reads remotes through an interface of its own; cmd hands in source/git and source/store"},
	{"reconcile/controller/rendering", Shell, list("api/...", "internal/policy/...", "source", "reconcile/render", "reconcile/render/cache", "reconcile/revision", "reconcile/rollout/poolstate", "reconcile/status", "reconcile/controller/clusterstate", "reconcile/controller/contents", "reconcile/controller/kube", "reconcile/controller/standardpools"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "writes what reconcile/render merges"},
	{"reconcile/controller/garbage", Shell, list("api/...", "source", "transpile", "reconcile/render", "reconcile/controller/contents", "reconcile/controller/gitsource", "reconcile/controller/kube", "reconcile/controller/rendering"), libs(kubeTypes, kubeClient), "creates a lost config again by the functions of the source and render controllers"},
	{"reconcile/controller/rollouts", Shell, list("api/...", "internal/policy/...", "source", "reconcile/gate", "reconcile/revision", "reconcile/rollout/...", "reconcile/status", "reconcile/controller/clusterstate", "reconcile/controller/daemons", "reconcile/controller/gates", "reconcile/controller/kube", "reconcile/controller/metrics", "reconcile/controller/nodeconfigs", "reconcile/controller/remotefiles", "reconcile/controller/secretrevisions"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "carries out what reconcile/rollout decides"},
	{"reconcile/controller/pinning", Shell, list("api/...", "internal/policy/membership", "reconcile/pinning", "reconcile/rollout/nodestate"), libs(kubeTypes, kubeClient), "writes what reconcile/pinning decides"},
	{"reconcile/controller/remotefiles", Shell, list("api/..."), kubeTypes, "which remote files a rendered config has never changes, so it is parsed once"},
	{"reconcile/controller/secretrevisions", Shell, list("api/...", "reconcile/rollout/poolstate", "reconcile/controller/kube"), libs(kubeTypes, kubeClient), "one ConfigMap says which secrets nodes may be assigned; no Secret is read"},
	{"internal/review", Pure, list("api/...", "internal/policy", "internal/policy/secret", "source", "transpile", "transpile/origin", "reconcile/render", "reconcile/render/cache", "reconcile/rollout/...", "reconcile/drain", "reconcile/status", "internal/review/cluster", "internal/review/content", "internal/review/downloads", "internal/review/encryption", "internal/review/lineage", "mcs", "mcd/plan", "mcd/host"), libs(kubeTypes, ignition, yaml), "a preview is made of everybody's pure functions, and of no shell"},

	{"internal/review/cluster", Pure, list("api/...", "internal/policy", "transpile"), kubeTypes, "objects of cluster/ are compared by their fields, not by a rendered config"},
	{"internal/review/encryption", Reader, list("api/...", "internal/policy/secret", "internal/review/cluster", "internal/sops/document", "internal/sops/rules", "transpile", "transpile/origin"), nil, "which files should be encrypted follows from the repository; only commands for people ask"},
	{"internal/review/downloads", Pure, list("api/..."), ignition, "what nodes download follows from two configs and the sizes of stored files; the network is not asked"},
	{"internal/review/content", Pure, list("api/...", "internal/sops/document", "internal/policy", "internal/policy/secret", "internal/review/downloads"), libs(ignition), "what differs in an item is read without knowing who asks"},
	{"internal/review/report", Pure, list("api/...", "internal/policy", "internal/review", "internal/review/cluster", "internal/review/downloads"), nil, "a comparison is written by who knows all of it, and by nobody who compares"},
	{"internal/review/annotate", Pure, list("api/...", "transpile"), nil, "a finding is written for each system that shows it; what it says is decided elsewhere"},
	{"internal/review/lineage", Pure, list("api/...", "internal/policy", "internal/policy/secret", "source", "transpile", "transpile/ignition", "transpile/message", "transpile/origin", "reconcile/render"), libs(kubeTypes, ignition), "who wrote a byte follows from the layers, as merging does"},
	{"internal/adopt/tree", Reader, list("api/...", "internal/adopt", "internal/adopt/butane", "internal/policy", "internal/policy/secret", "source", "transpile/butane", "transpile/ignition", "transpile/origin"), libs(kubeTypes, ignition, yaml), "Butane files of elsewhere become a repository's documents"},
	{"internal/adopt/butane", Pure, list("api/...", "internal/policy/secret"), libs(ignition, yaml), "an Ignition config is written as Butane in one place, whatever it comes from"},
	{"internal/adopt", Pure, list("api/...", "internal/adopt/butane", "internal/policy", "internal/policy/secret", "internal/policy/pace", "transpile/containerruntime", "transpile/ignition", "transpile/kubelet", "transpile/object", "transpile/origin", "transpile/registries"), libs(kubeTypes, ignition, yaml), "MachineConfigs of elsewhere become a repository's documents"},
	{"internal/forge", Ports, list("api/..."), nil, "when to post and when to edit does not depend on the service"},
	{"internal/forge/github", Shell, list("api/fault", "internal/forge"), list("github.com/google/go-github/"), "the only room that speaks to GitHub"},
	{"internal/forge/gitlab", Shell, list("api/fault", "internal/forge"), list("gitlab.com/gitlab-org/api/client-go"), "the only room that speaks to GitLab"},
	{"internal/forge/gitea", Shell, list("api/fault", "internal/forge"), list("code.gitea.io/sdk/gitea"), "the only room that speaks to Gitea and Forgejo"},
	{"internal/forge/forgetest", Test, list("internal/forge"), nil, "stands for the services in tests"},

	{"config", Data, nil, nil, "the manifests, for programs that install them"},
	{"internal/install", Pure, list("api/v1alpha1"), libs(kubeTypes, yaml, list("github.com/Masterminds/semver/v3", "sigs.k8s.io/kustomize/")), "what an installation needs follows from the manifests, the options and what was read from the cluster"},

	{"internal/support", Pure, nil, libs(kubeTypes, yaml), "what leaves a cluster in a support bundle is decided and masked in one place"},

	{"internal/terminal", Pure, list("api/safetext"), nil, "how text fits on a terminal does not depend on what it says"},
	{"internal/inspect/fleet", Pure, list("api/...", "internal/policy/...", "source", "reconcile/rollout/...", "internal/terminal"), kubeTypes, "what a user reads of pools and nodes follows from their objects; why a node waits is asked of the rollout itself"},
	{"internal/inspect/components", Pure, list("api/...", "internal/inspect/fleet", "internal/terminal"), kubeTypes, "which controllers and servers run follows from their Leases"},
	{"internal/inspect/drift", Pure, list("api/...", "reconcile/rollout", "reconcile/rollout/nodestate", "internal/inspect/fleet", "internal/terminal"), kubeTypes, "where nodes differ follows from their reports"},
	{"internal/inspect/reason", Pure, list("api/...", "internal/policy/membership", "source", "reconcile/drain", "reconcile/rollout/...", "internal/inspect/components", "internal/inspect/drift", "internal/inspect/fleet"), kubeTypes, "why something waits, and what helps, follows from the fleet"},
	{"internal/inspect/history", Pure, list("api/...", "internal/inspect/fleet", "internal/terminal"), kubeTypes, "how a rollout ended follows from what was recorded of it"},
	{"internal/inspect/timeline", Pure, list("api/...", "internal/inspect/fleet"), kubeTypes, "when a node took a step follows from its reports"},
	{"internal/inspect/trace", Pure, list("api/...", "source", "internal/inspect/fleet", "internal/terminal"), kubeTypes, "where a config comes from follows from its annotations"},
	{"internal/console/region", Pure, nil, nil, "which parts of a page changed follows from two states of it"},
	{"internal/console/session", Shell, nil, nil, "reads cookies and headers of requests; the caller passes the time and random bytes"},
	{"internal/console/feed", Shell, nil, nil, "waits and timers are the same whatever is watched"},
	{"internal/console/contents", Pure, list("api/...", "internal/inspect/trace", "internal/policy", "internal/policy/secret", "internal/review/lineage", "transpile/nodefacts"), kubeTypes, "which documents set an item follows from the config and its inputs"},
	{"internal/console/detail", Ports, list("api/...", "internal/console/contents", "internal/console/view", "internal/inspect/...", "internal/policy", "internal/review/...", "reconcile/drain", "reconcile/notify", "reconcile/rollout/...", "source"), libs(kubeTypes, list("sigs.k8s.io/controller-runtime/pkg/client")), "what a page reads live, and for how long, is decided apart from requests; the viewer hands in the reads"},
	{"internal/console/view", Pure, list("api/...", "internal/console/contents", "internal/console/region", "internal/inspect/...", "internal/review/...", "internal/terminal", "reconcile/drain"), kubeTypes, "what a page shows follows from the data that the command line prints"},
	{"internal/inspect", Pure, list("api/...", "internal/policy/...", "source", "reconcile/drain", "reconcile/rollout/...", "internal/inspect/components", "internal/inspect/drift", "internal/inspect/fleet", "internal/inspect/reason", "internal/terminal"), kubeTypes, "what a user reads of a cluster follows from its objects"},
	{"internal/rollback", Pure, list("api/...", "source", "internal/inspect/fleet", "internal/terminal"), kubeTypes, "which commits and files to revert follows from the cluster's records and from lists of files"},
	{"internal/steer", Pure, list("api/...", "source", "reconcile/rollout/nodestate", "internal/inspect/fleet"), kubeTypes, "what to change for a user follows from the objects and from what the user asks for"},

	{"mcs", Pure, list("api/...", "internal/policy", "internal/policy/secret"), libs(kubeTypes, ignition, ignition2, yaml), "what a new machine gets follows from the rendered config and the request"},
	{"mcs/served", Pure, list("api/...", "mcs"), kubeTypes, "response bodies are created once and shared; other packages decide where configs come from and who may read them"},
	{"mcs/token", Pure, list("api/..."), kubeTypes, "whether a token is valid follows from its ProvisioningToken and the time"},
	{"mcs/batch", Ports, list("api/fault"), nil, "how writes are collected does not depend on what they write"},
	{"mcs/daemon", Pure, list("config", "mcs"), libs(ignition), "what installs the daemon on a new machine follows from its binary and its units, for the server and for pointer configs"},
	{"mcs/pointer", Pure, list("api/...", "mcs", "mcs/daemon", "mcs/token"), libs(ignition, ignition2, yaml), "a pointer config follows from the server's URL, its CA and a token"},
	{"mcs/secrets", Pure, list("api/..."), kubeTypes, "what a config resolves to follows from the config, the objects and the keys"},
	{"mcs/secrets/follow", Shell, list("api/...", "mcs", "mcs/secrets"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "reads the secrets of configs from the API server, apart from the configs"},
	{"mcs/content", Pure, list("api/...", "mcs"), nil, "which grants a machine gets, and which are valid, follows from keys and times"},
	{"mcs/content/copies", Shell, list("api/...", "internal/artifact", "mcs"), libs(kubeTypes, kubeClient), "reads files of the content store and of registries, apart from who may read them"},
	{"mcs/variants", Pure, list("api/...", "mcs"), kubeTypes, "which configs a node may run follows from its pools, their configs and its report"},
	{"mcs/trust", Pure, list("api/..."), nil, "which certificates a pool gets follows from the objects, what was in force, and now"},
	{"mcs/trust/follow", Shell, list("api/...", "mcs", "mcs/trust"), libs(kubeTypes, kubeClient), "reads what nodes trust from the API server, apart from what they run"},
	{"mcs/http/address", Pure, nil, nil, "whose request it is, and whether it may come, follows from its address"},
	{"mcs/http/limit", Pure, list("mcs/http/address"), libs(list("golang.org/x/time/rate", "github.com/hashicorp/golang-lru/v2")), "how often a client may cause an event follows from its address and the time"},
	{"mcs/http/transfer", Shell, nil, nil, "how a file is sent does not depend on who may read it"},
	{"mcs/http/clientca", Shell, list("api/trustfile"), nil, "which CAs are in force does not depend on what their certificates authorize"},
	{"mcs/http", Shell, list("api/...", "mcs", "mcs/content", "mcs/daemon", "mcs/http/address", "mcs/http/clientca", "mcs/http/limit", "mcs/http/transfer", "mcs/served", "mcs/token"), libs(kubeTypes, list("golang.org/x/time/rate", "github.com/prometheus/")), "routes, limits, authorization and the request log; mcs decides what is served"},
	{"mcs/certs", Shell, list("api/...", "mcs"), libs(kubeTypes, kubeClient), "stores and renews the server's certificates"},
	{"mcs/share", Ports, list("mcs"), nil, "how scarce bootstrap tokens are divided does not depend on who creates them"},
	{"mcs/cluster", Shell, list("api/...", "internal/policy/membership", "mcs", "mcs/batch", "mcs/served", "mcs/share", "mcs/token", "mcs/variants"), libs(kubeTypes, kubeClient, list("golang.org/x/sync/")), "reads and writes the API server for machine-config-server, with a cache on disk"},
	{"mcs/files", Shell, list("api/...", "mcs", "mcs/batch", "mcs/served", "mcs/token"), libs(kubeTypes, yaml), "configs, tokens and added files for the server, from files: no cluster"},

	{"internal/bootstrap", Shell, list("api/...", "internal/policy", "internal/policy/secret", "source", "source/verify", "transpile", "reconcile/render", "internal/review"), libs(kubeTypes, yaml), "a repository's rendered configs without a cluster, by the controllers' own pure functions"},

	{"mcd/host", Data, list("api/..."), nil, "the contract of a host: two implementations and one suite stand on it"},
	{"mcd/desired", Pure, list("api/...", "internal/policy", "mcd/host"), libs(ignition, kubeTypes), "what a config asks of a machine follows from the config and the machine's accounts"},
	{"mcd/plan", Pure, list("api/...", "internal/policy", "internal/policy/distribution", "internal/policy/secret", "mcd/host", "mcd/desired"), libs(ignition, kubeTypes), "the difference of two states is arithmetic"},
	{"mcd/health", Pure, list("mcd/host"), nil, "whether a machine lives with its new config follows from what was seen of it"},
	{"mcd/drift", Pure, list("api/...", "internal/policy", "internal/policy/secret", "mcd/host", "mcd/desired", "mcd/plan"), libs(ignition, kubeTypes), "what to do about a difference follows from the difference, the policy and now"},
	{"mcd/secrets", Pure, list("api/...", "mcd/host", "mcd/plan"), ignition, "which contents of secrets a machine keeps follows from its configs and the server's answer; agent, trustsync and once put them into configs"},
	{"mcd/trust", Pure, list("api/...", "internal/policy", "internal/policy/distribution", "mcd/host", "mcd/desired", "mcd/plan"), ignition, "what a machine gets beside its config follows from the server's answer, the config in force and the machine"},
	{"mcd/metrics", Shell, nil, nil, "what the daemon counts, served on loopback; the agent tells it through an interface of its own"},
	{"mcd/once", Ports, list("api/...", "internal/policy", "mcd/attempts", "mcd/fetch", "mcd/host", "mcd/plan", "mcd/apply", "mcd/drift", "mcd/secrets"), libs(kubeTypes, ignition, yaml), "one config on a machine that asks no cluster: once-from and first boot"},
	{"mcd/apply", Ports, list("api/...", "internal/policy/distribution", "mcd/host", "mcd/desired", "mcd/plan"), kubeTypes, "walks a plan through the ports, so that a crash after any step can be tested"},
	{"mcd/host/linux/beneath", Shell, list("mcd/host"), list("golang.org/x/sys/"), "the only room that opens a machine's path: a user of the machine could lead any other way elsewhere"},
	{"mcd/host/linux/files", Shell, list("mcd/host", "mcd/host/linux/beneath"), list("golang.org/x/sys/"), "the only room that writes files of a machine"},
	{"mcd/host/linux/systemd", Shell, list("api/fault", "internal/policy/distribution", "mcd/host", "mcd/host/linux/files"), list("github.com/coreos/go-systemd/v22/", "github.com/godbus/dbus/v5"), "units and reboots of a machine"},
	{"mcd/host/linux/accounts", Shell, list("mcd/host", "mcd/host/linux/files"), nil, "users and groups of a machine"},
	{"mcd/host/linux/machine", Shell, list("mcd/host", "mcd/host/linux/files"), nil, "what a machine is, and its own programs: image tools and boot loaders share it"},
	{"mcd/host/linux/ostree", Shell, list("api/machineconfig", "mcd/host", "mcd/host/linux/files", "mcd/host/linux/machine"), nil, "the OS of a machine, through its own rpm-ostree or bootc"},
	{"mcd/host/linux/bootloader", Shell, list("api/nodepath", "internal/policy/distribution", "mcd/host", "mcd/host/linux/files", "mcd/host/linux/machine"), nil, "the kernel arguments of a machine without an image, in the files of its boot loader"},
	{"mcd/host/linux/watch", Shell, list("mcd/host", "mcd/host/linux/files"), list("golang.org/x/sys/"), "changes of a machine's files, from inotify"},
	{"mcd/host/linux", Shell, list("internal/policy/distribution", "mcd/host", "mcd/host/linux/bootloader", "mcd/host/linux/files", "mcd/host/linux/machine", "mcd/host/linux/systemd", "mcd/host/linux/accounts", "mcd/host/linux/content", "mcd/host/linux/ostree", "mcd/host/linux/watch"), list("golang.org/x/sys/"), "puts the parts of a real or simulated host together"},
	{"mcd/host/hosttest", Test, list("api/...", "mcd/host"), anything, "stands for a host in tests; knows the contract, not its users"},
	{"mcd/fetch", Ports, list("api/...", "internal/artifact", "internal/artifact/mirrors", "mcd/host"), ignition, "what to download, and when contents count, is decided apart from HTTP and from disks"},
	{"mcd/host/linux/content", Shell, list("api/...", "mcd/fetch", "mcd/host", "mcd/host/linux/files"), nil, "downloaded contents on a machine's disk, through its files"},
	{"mcd/agent/contentsync", Shell, list("api/machineconfig", "api/v1alpha1", "mcd/fetch", "mcd/host", "mcd/plan"), kubeTypes, "downloads before a drain need no cluster; the agent says what it does with them"},
	{"mcd/images", Ports, list("api/..."), nil, "which images to pull, and in which order, is decided apart from the programs of a machine"},
	{"mcd/host/linux/runtime", Shell, list("api/nodepath", "mcd/host", "mcd/host/linux/files", "mcd/host/linux/machine"), nil, "the container runtime of a machine, through its own crictl and ctr, so that the daemon links no gRPC"},
	{"mcd/agent/imagesync", Shell, list("api/...", "mcd/images", "mcd/report"), kubeTypes, "pulls take long, so they run beside the agent"},
	{"mcd/agent/signals", Shell, nil, nil, "when the next sync starts depends on channels and time alone"},
	{"mcd/agent/statefile", Shell, list("api/...", "mcd/attempts", "mcd/health", "mcd/host", "mcd/plan", "mcd/report"), kubeTypes, "the files that the agent and its health check store are in one place; the host is an argument"},
	{"mcd/agent/secretstore", Shell, list("api/...", "mcd/agent/statefile", "mcd/host", "mcd/plan", "mcd/report", "mcd/secrets"), nil, "gets and stores contents of secrets before a plan; the agent waits for it"},
	{"mcd/agent/healthcheck", Shell, list("mcd/agent/statefile", "mcd/apply", "mcd/attempts", "mcd/health", "mcd/host", "mcd/report"), nil, "asks the machine and the API server what mcd/health decides on"},
	{"mcd/agent", Shell, list("api/...", "internal/policy", "mcd/attempts", "mcd/fetch", "mcd/host", "mcd/desired", "mcd/plan", "mcd/apply", "mcd/drift", "mcd/health", "mcd/report", "mcd/secrets", "mcd/agent/contentsync", "mcd/agent/driftscan", "mcd/agent/healthcheck", "mcd/agent/secretstore", "mcd/agent/signals", "mcd/agent/statefile", "mcd/agent/trustsync"), kubeTypes, "watches one Node; the host is handed to it by cmd"},
	{"mcd/attempts", Pure, list("mcd/host"), nil, "the agent, apply and firstboot give up a config by one rule"},
	{"mcd/report", Pure, list("api/...", "internal/policy"), kubeTypes, "the annotations, events and MachineConfigNode of one node follow from how far the daemon is; agent and kube share them"},
	{"mcd/agent/driftscan", Shell, list("api/...", "internal/policy", "mcd/host", "mcd/desired", "mcd/plan", "mcd/apply", "mcd/drift", "mcd/report"), kubeTypes, "a drift scan needs no update, and commands on the node read what it found"},
	{"mcd/agent/trustsync", Shell, list("api/...", "internal/policy", "internal/policy/distribution", "mcd/host", "mcd/desired", "mcd/plan", "mcd/apply", "mcd/secrets", "mcd/trust"), nil, "files beside the config change without an update; the agent says when none is under way"},
	{"mcd/agent/etcd", Shell, list("api/..."), nil, "asks the etcd of its own node, with that node's files; cmd hands it to the heartbeat"},
	{"mcd/agent/kube", Shell, list("api/...", "internal/policy", "mcd/drift", "mcd/fetch", "mcd/health", "mcd/plan", "mcd/report"), libs(kubeTypes, kubeClient), "speaks to the API server for one node; cmd hands it to the agent"},
	{"mcd/simulate", Shell, list("api/...", "mcd/host"), libs(kubeTypes, kubeClient), "keeps a simulated host's Node alive as a kubelet would"},

	{"cmd/machine-config-controller", Command, list("api/...", "internal/artifact", "internal/forge/...", "internal/inspect", "internal/inspect/fleet", "internal/policy/...", "source/...", "transpile/...", "reconcile/..."), anything, "wires source, transpile and reconcile, and gives the BunsenStatus the verdicts of `bunsen status`; server and daemon are other processes"},
	{"cmd/machine-config-server", Command, list("api/...", "internal/artifact", "internal/artifact/mirrors", "internal/download", "internal/policy", "internal/sops", "internal/sops/keyservice", "mcs/...", "internal/bootstrap", "source/..."), anything, "wires mcs, and a repository where there is no cluster; controller and daemon are other processes"},
	{"cmd/machine-config-daemon", Command, list("api/...", "internal/download", "internal/policy", "internal/policy/distribution", "mcd/host", "mcd/host/linux/...", "mcd/plan", "mcd/apply", "mcd/drift", "mcd/fetch", "mcd/health", "mcd/agent/...", "mcd/metrics", "mcd/once", "mcd/report", "mcd/simulate"), anything, "wires mcd; controller and server are other processes"},
	{"internal/cli", Command, list("api/safetext", "internal/terminal"), list("github.com/spf13/cobra", "golang.org/x/term", "sigs.k8s.io/yaml"), "exit codes and outputs are the same for every verb"},
	{"internal/cli/kube", Command, list("api/...", "internal/cli", "internal/inspect", "internal/inspect/fleet", "internal/steer"), anything, "bunsen speaks to a cluster in one place, so that errors and permissions are explained once"},
	{"internal/cli/watching", Command, list("api/...", "internal/cli", "internal/cli/kube", "internal/inspect/fleet"), anything, "which objects a status needs is decided once, for the terminal and for the browser"},
	{"internal/cli/live", Command, list("api/...", "internal/cli", "internal/cli/kube", "internal/cli/watching", "internal/inspect", "internal/inspect/fleet", "internal/terminal"), anything, "the terminal; what the screen says is decided in inspect"},
	{"internal/artifact", Pure, list("api/machineconfig"), nil, "what a registry answers means the same for daemon, server and bunsen"},
	{"internal/artifact/mirrors", Pure, list("api/machineconfig"), list("github.com/BurntSushi/toml"), "where a file is follows from the texts of registries.conf, for daemon, server and bunsen"},
	{"internal/artifact/registry", Ports, list("api/...", "internal/artifact", "internal/artifact/mirrors"), nil, "daemon and bunsen read the same bytes of a registry; the client for HTTP is an argument, so that each keeps its own limits"},
	{"internal/download", Shell, list("api/...", "internal/artifact", "internal/artifact/mirrors", "internal/artifact/registry"), libs(ignition, list("golang.org/x/net/http/httpproxy")), "daemon, server and bunsen request files within the same limits; where the bytes go is decided elsewhere"},
	{"internal/remotehash", Pure, list("api/..."), yaml, "where a hash belongs in a document follows from its text"},
	{"internal/cli/hashing", Command, list("api/...", "internal/artifact", "internal/artifact/mirrors", "internal/cli", "internal/download", "internal/remotehash", "mcd/fetch", "mcd/host"), anything, "downloads as the daemon does, so that both get the same bytes"},
	{"internal/cli/folders", Command, list("api/...", "internal/adopt", "internal/adopt/tree", "internal/cli", "mcd/host", "mcd/desired", "mcd/plan", "reconcile/render", "internal/review", "internal/review/lineage", "source", "source/git", "source/git/history", "source/store", "transpile"), anything, "opens repositories and writes directories for the verbs without a cluster"},
	{"internal/cli/compare", Command, list("api/...", "internal/cli", "internal/cli/folders", "internal/cli/kube", "internal/policy", "internal/policy/membership", "internal/policy/secret", "reconcile/drain", "reconcile/render", "reconcile/rollout/poolstate", "internal/review", "internal/review/cluster", "internal/review/downloads", "internal/review/encryption", "internal/review/lineage", "internal/review/report", "source", "source/git", "source/git/history", "transpile"), anything, "renders the sides of a comparison with the controllers' pure functions"},
	{"internal/cli/secrets", Command, list("api/safetext", "internal/cli", "internal/sops/...", "source/git"), anything, "the only room with the user's age keys and editor"},
	{"internal/cli/machines", Command, list("api/...", "internal/cli", "internal/cli/kube", "internal/inspect", "internal/inspect/fleet", "mcs", "mcs/daemon", "mcs/files", "mcs/pointer", "mcs/token", "internal/terminal"), anything, "tokens and pointer configs, for a cluster or for files"},
	{"internal/cli/nodes", Command, list("api/...", "internal/adopt", "internal/cli", "internal/cli/kube", "internal/inspect/drift", "internal/inspect/fleet"), anything, "reads nodes through their daemons"},
	{"internal/cli/installing", Command, list("api/...", "internal/cli", "internal/cli/kube", "config", "internal/inspect/components", "internal/inspect/fleet", "internal/install", "internal/terminal"), anything, "applies what package install decides, and waits for it"},
	{"internal/cli/bundle", Command, list("api/safetext", "internal/cli", "internal/cli/kube", "internal/inspect", "internal/inspect/fleet", "internal/support"), anything, "reads what package support masks and packs"},
	{"internal/cli/pullrequest", Command, list("api/...", "internal/cli", "internal/cli/compare", "internal/cli/folders", "internal/forge", "internal/forge/gitea", "internal/forge/github", "internal/forge/gitlab", "internal/review", "internal/review/report"), anything, "chooses the service of a pull request"},
	{"internal/cli/publish", Command, list("api/...", "internal/cli", "internal/cli/folders", "source", "source/cosign", "source/dial", "source/git", "source/oci"), anything, "reads a commit, and pushes what package oci packs"},
	{"internal/cli/reverting", Command, list("api/...", "internal/cli", "internal/cli/compare", "internal/cli/folders", "internal/cli/kube", "internal/cli/pullrequest", "internal/forge", "internal/review", "internal/rollback", "source", "source/git", "transpile"), anything, "the only room that runs the user's git"},
	{"internal/cli/tracing", Command, list("api/...", "internal/cli", "internal/cli/kube", "internal/inspect/trace", "internal/review", "source", "source/git", "transpile"), anything, "joins what a cluster and a repository say of a config"},
	{"internal/console", Command, list("api/...", "internal/cli", "internal/cli/kube", "internal/cli/tracing", "internal/cli/watching", "internal/console/...", "internal/inspect/..."), anything, "joins watches, sessions and pages; serves them to browsers"},
	{"cmd/bunsen", Command, list("internal/adopt", "api/...", "internal/cli/...", "internal/console", "internal/forge", "internal/inspect/...", "internal/policy/secret", "mcs/pointer", "reconcile/render", "internal/review", "internal/review/annotate", "internal/review/encryption", "internal/rollback", "internal/steer"), anything, "flags and help of the verbs; the offline verbs run the controllers' pure functions, not the controllers"},

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
