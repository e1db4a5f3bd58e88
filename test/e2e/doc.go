// Package e2e tells stories: real git over HTTP, a real API server, our real processes and simulated hosts, from the
// commit that somebody pushes to the files on a node. Each story is one txtar file in testdata/script, meant to be
// read; each has a control plane for itself, so that stories neither wait for nor disturb each other. When a story
// ends, a later one gets its control plane, with everything in etcd as it was after the installation.
//
// A story speaks testscript and these commands:
//
//	gitrepo NAME             serve the directory NAME as a repository at $URL, behind a password ($GITUSER, $GITPASSWORD)
//	gitserver up|down        take the git server away, or bring it back
//	commit NAME SUBJECT      commit everything in NAME and push it; $HEAD is the commit
//	push NAME                push what `exec git` made; $HEAD is the commit
//	apply FILE...            kubectl apply --server-side, with $VARIABLES expanded in the file
//	controller, server       start machine-config-controller, machine-config-server (as their service accounts); who asks
//	                         the server, at $MCS, needs a token; the controller's webhook receiver is at $HOOK
//	bare NAME FLAG...        start machine-config-server without a cluster, at $NAME; NAME/certs/ca.crt is its CA
//	host NODE FLAG...        start the daemon of a simulated host (as system:node:NODE) on the directory hosts/NODE
//	crash NAME               end controller, server or NODE at once, as a power cut would
//	restart NAME             start it again
//	machines NODE...         make Nodes as kubeadm does, start their hosts, wait until they are Ready
//	upstream                 start the real kube-controller-manager and kube-scheduler
//	kubelets NODE...         start Nodes with real kubelets whose pods run nothing, and their hosts; wait until they are Ready
//	follow NAME              make the GitSource NAME for gitrepo's repository, with its Secret; it looks when asked to
//	rendered POOL VAR        wait until the pool is rendered from $HEAD; VAR is its config's name
//	updated POOL CONFIG      wait until every node of the pool runs the config and is in service
//	announce STATUS SOURCE SECRET    announce $HEAD by a webhook request that SECRET signs, until the answer is STATUS
//	look SOURCE              ask for a look at the repository now; returns when it has been answered
//	waitfor KIND/NAME FIELD REGEXP   wait until the whole field matches; on time-out show what was seen
//	waitfor KIND/NAME gone           wait until the object is away
//	waitfor file PATH REGEXP         wait for a file's content
//	eventually REGEXP PROGRAM...     execute a program again and again, until its output matches
//	event KIND/NAME REASON REGEXP    wait for an event about an object, by the API's kind, whose whole note matches
//	let VAR KIND/NAME FIELD  put a field into a variable
//	watchnodes               begin to record every change of every node
//	committed REPO           since watchnodes nodes were assigned only configs that pushed commits of REPO render
//	budget POOL N            at no time since were more than N nodes of the pool out, and at one time N were
//	foretold FILE            since watchnodes the nodes did what FILE, of `bunsen diff --cluster -o json`, says: no more, no less
//	own VAR NODE CONFIG      put into a variable what a node runs if CONFIG is the config of its pool
//	moved NODE...            since watchnodes exactly these nodes were assigned another config, drained or booted again
//	token VAR POOL [FLAG...] bunsen token create: VAR is the token, VAR_ID and VAR_SECRET its parts
//	ask STATUS POOL [TOKEN]  ask the server as a new machine does, until it answers so; print the body
//	pointed STATUS FILE      the same with what a pointer config says, and nothing else: URL, CA and headers
//	serves POOL CONFIG       wait until new machines of the pool get the config
//	sameignition POOL        what machine-config-server serves is the rendered config, but for what it appends
//	unpack FILE DIR          write the files of an Ignition config into a directory
//	csr NODE FILE            write the request for a certificate that the kubelet of a new node sends
//	join NODE KUBECONFIG     ask for a Node's certificate with a bootstrap kubeconfig, wait for the approval, and sign it
//	mirror VAR DIR           serve the files of a directory at $VAR; mirror VAR away PREFIX hangs up for such paths, until mirror VAR back
//	canaries VALUE...        name secret values (@FILE is a whole file) that must be nowhere, and begin to record processes
//	searched ALLOWED [URL...]    search all that the story wrote for them, in every coding; ALLOWED has PLACE MODE REASON
//	apiserver away|back      cut the server off the API server ($APISERVER for everybody else), and mend that
//
// The scripts of the truth table, testdata/truth, speak these as well. Each of their states is compared with the golden
// STATE.txt, each way out of it with STATE.fix.txt; `go test ./test/e2e -run TestTruth -update` rewrites them.
//
//	state NAME WANT...       wait until each WANT is true and `bunsen status`, `bunsen why`, the conditions of pools, the metrics
//	                         and exit codes agree; then compare them and the events with the golden. WANT is
//	                         node/NAME=OUTCOME[:CAUSE], pool/NAME=OUTCOME[:CAUSE], mcp/NAME:CONDITION=STATUS,
//	                         gitsource/NAME:CONDITION=STATUS, metric:SERIES=VALUE or status=EXITCODE
//	fix ABOUT STATE          execute the lines after "To do:" of `bunsen why ABOUT` until ABOUT is fine
//	advice REGEXP COMMAND... what a person does who reads a line that is no command
//	instead REGEXP COMMAND... what a person does in the place of a command that needs more than this cluster has
//	freeze NAME, thaw NAME   stop a process with all that it holds, and let it continue
//	nokubelet NODE...        make Nodes and start their daemons; no kubelet reports but by `kubelet`
//	kubelet NODE ready|silent|diskpressure   write the conditions of a Node
//	smalldisk NODE SIZE      make a Node with a simulated host whose disk has SIZE; fill NODE [off] fills it, or frees it
//	replica NAME FLAG...     start one more machine-config-controller
//	network USER route|down|up   lead a user (controller, NODE, admin) to the API server by a route, cut it, and mend it
//	backdate WHAT AGE        make older what a frozen process last reported: daemon/NODE, controller, server, look/SOURCE
//
// FIELD is a {jsonpath}, annotation:KEY (by the part after the slash), or condition:TYPE (`status reason message`).
//
// As long as a story lasts, test/kstatus checks the conditions of its sources and pools; a contradiction fails the
// story.
//
// In: KUBEBUILDER_ASSETS (or ../../bin/assets), BUNSEN_BIN (or it builds the binaries), hollow-kubelet beside the
// executable that the assets link to, git. Out: test results. Never: a
// skip where a part is missing, a sleep, an address beyond loopback.
package e2e
