package arch

// shellFiles are the files of mixed rooms that do I/O; the others decide.
var shellFiles = map[string][]string{
	"internal/download": {
		"checked.go",
		"download.go",
		"read.go",
	},
	"internal/forge": {
		"gitea.go",
		"github.go",
		"gitlab.go",
		"publish.go",
	},
	"internal/lsp": {
		"repository.go",
		"server.go",
	},
	"internal/sops": {
		"client.go",
	},
	"mcd/drift": {
		"scanner.go",
	},
	"mcd/fetch": {
		"download.go",
		"fetcher.go",
		"syncer.go",
	},
	"mcd/images": {
		"images.go",
		"sync.go",
	},
	"mcd/secrets": {
		"store.go",
	},
	"mcd/state": {
		"files.go",
		"task.go",
	},
	"mcd/trust": {
		"sync.go",
	},
	"mcs/cluster": {
		"bootstrap_token.go",
		"cache.go",
		"cluster.go",
		"heartbeat.go",
		"nodes.go",
		"pools.go",
		"tokens.go",
	},
	"mcs/content": {
		"copies.go",
	},
	"mcs/http": {
		"authorize.go",
		"clientca.go",
		"config.go",
		"content.go",
		"daemon.go",
		"errors.go",
		"listener.go",
		"node_config.go",
		"request_log.go",
		"server.go",
	},
	"mcs/secrets": {
		"follow.go",
	},
	"mcs/trust": {
		"follow.go",
	},
	"reconcile/approve": {
		"controller.go",
	},
	"reconcile/drain": {
		"controller.go",
		"evictions.go",
	},
	"reconcile/gate": {
		"gates.go",
		"prometheus.go",
	},
	"reconcile/gitsource": {
		"applier.go",
		"controller.go",
		"receiver.go",
		"repository.go",
		"restore.go",
	},
	"reconcile/notify": {
		"client.go",
		"controller.go",
		"githost.go",
		"heartbeat.go",
		"receiver.go",
	},
	"reconcile/pinning": {
		"controller.go",
	},
	"reconcile/render": {
		"controller.go",
		"hold.go",
		"node_configs.go",
		"target.go",
	},
	"reconcile/revision": {
		"objects.go",
	},
	"reconcile/rollout": {
		"controller.go",
		"events.go",
		"node_writes.go",
		"revisions.go",
		"stops.go",
	},
	"source/access": {
		"dial.go",
		"proxy.go",
	},
	"source/git": {
		"directory.go",
		"directory_windows.go",
		"evidence.go",
		"explain.go",
		"files.go",
		"local.go",
		"location.go",
		"owner_unix.go",
		"owner_windows.go",
		"remote.go",
		"session.go",
		"since.go",
		"spelling.go",
		"submodules.go",
		"version0.go",
		"work_tree.go",
	},
	"source/git/transport": {
		"http.go",
		"session.go",
		"ssh.go",
	},
	"source/oci": {
		"archive.go",
		"contents.go",
		"guard.go",
		"push.go",
		"remote.go",
		"tree.go",
	},
}
