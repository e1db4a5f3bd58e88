package kube

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Collection is one run of the verb support-bundle.
type Collection struct {
	Target
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

// collect reads all parts, and lists those that cannot be read.
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

func kinds(namespace string) []kind {
	const config = "machineconfiguration.openshift.io"
	all := []kind{
		{config, "v1", "MachineConfigPool", ""},
		{config, "v1", "MachineConfig", ""},
		{config, "v1", "MachineConfigNode", ""},
		{config, "v1", "PinnedImageSet", ""},
		{"operator.openshift.io", "v1", "MachineConfiguration", ""},
		{"", "v1", "Node", ""},
		{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", ""},
		{"certificates.k8s.io", "v1", "CertificateSigningRequest", ""},
	}
	for _, own := range []string{
		"BunsenStatus", "GitSource", "RevisionContent", "Content", "RolloutPolicy",
		"DriftPolicy", "ProvisioningToken", "Notification",
	} {
		all = append(all, kind{"bunsen.dev", "v1alpha1", own, ""})
	}
	for _, k := range []kind{
		{"apps", "v1", "Deployment", ""},
		{"apps", "v1", "DaemonSet", ""},
		{"", "v1", "Pod", ""},
		{"", "v1", "ConfigMap", ""},
		{"", "v1", "Event", ""},
		{"coordination.k8s.io", "v1", "Lease", ""},
		{"policy", "v1", "PodDisruptionBudget", ""},
	} {
		k.namespace = namespace
		all = append(all, k)
	}
	// The namespace default has the events of objects without a namespace.
	return append(all, kind{"", "v1", "Event", "default"})
}

func (c collector) say(what string) { fmt.Fprintln(c.progress, what) }

// write creates a file that only the user can read, or writes to standard output.
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

const (
	// MaxBundleFile is the size of the largest file of a bundle; of a longer one, it has the last part.
	MaxBundleFile = 4 << 20
	// of all files together, before compression
	maxTotal = 200 << 20
)

// Bundle has the files of a support bundle.
type Bundle struct {
	Name string
	At   time.Time

	files   map[string][]byte
	leftOut []string
	total   int
}

// Add adds a masked file: it shortens one that is too long, and leaves it out if the bundle is full.
func (b *Bundle) Add(name string, content []byte) {
	if len(content) > MaxBundleFile {
		b.LeaveOut(name, fmt.Sprintf("only its last %d of %d bytes are here", MaxBundleFile, len(content)))
		content = content[len(content)-MaxBundleFile:]
		if line := strings.IndexByte(string(content), '\n'); line >= 0 {
			// The beginning of a cut line is missing, and with it the word by which a secret is recognized.
			content = content[line+1:]
		}
	}
	if b.total+len(content) > maxTotal {
		b.LeaveOut(name, "the bundle is full")
		return
	}
	if b.files == nil {
		b.files = map[string][]byte{}
	}
	b.total += len(content)
	b.files[name] = content
}

// LeaveOut records that a file or an object is not in the bundle, and why.
func (b *Bundle) LeaveOut(what, why string) {
	b.leftOut = append(b.leftOut, MaskedText(what+": "+strings.ReplaceAll(why, "\n", " ")))
}

// Len returns the number of files.
func (b *Bundle) Len() int { return len(b.files) }

// Write writes the archive with the files in the order of their names, and left-out.txt as the last one.
func (b *Bundle) Write(w io.Writer) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if err := b.write(archive, name, b.files[name]); err != nil {
			return err
		}
	}
	slices.Sort(b.leftOut)
	list := cmp.Or(strings.Join(b.leftOut, "\n"), "nothing") + "\n"
	if err := b.write(archive, "left-out.txt", []byte(list)); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

func (b *Bundle) write(archive *tar.Writer, name string, content []byte) error {
	head := &tar.Header{
		Name: path.Join(b.Name, name), Mode: 0o600, Size: int64(len(content)),
		ModTime: b.At.Truncate(time.Second), Format: tar.FormatPAX,
	}
	if err := archive.WriteHeader(head); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", name, err)
	}
	if _, err := archive.Write(content); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", name, err)
	}
	return nil
}

const (
	// the pods of the daemon whose logs a bundle has
	maxDaemons = 50
	// for reading one log
	logTimeout = 5 * time.Minute
	logLines   = 20000
	// The bytes of a log that are read, and its last ones that are masked: twice as many as the bundle has, so that the
	// part in the bundle does not begin inside of a secret of several lines.
	maxLog    = 64 << 20
	maskedLog = 2 * MaxBundleFile
)

// logs adds the logs of Bunsen's pods: of all controllers and servers, and of some daemons, those with a problem first.
func (c collector) logs(ctx context.Context) {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(c.namespace)); err != nil {
		c.LeaveOut("logs", err.Error())
		return
	}
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int {
		if d := priority(&a) - priority(&b); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	daemons := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if isDaemon(p) {
			if daemons++; daemons > maxDaemons {
				c.LeaveOut("logs/"+p.Name, fmt.Sprintf("the bundle has the logs of %d daemons: first of those that "+
					"are not ready", maxDaemons))
				continue
			}
		}
		for _, s := range p.Status.ContainerStatuses {
			c.log(ctx, p, s.Name, false)
			if s.RestartCount > 0 {
				c.log(ctx, p, s.Name, true)
			}
		}
	}
}

// log adds the log of a container, or of the container that ran before its last restart.
func (c collector) log(ctx context.Context, p *corev1.Pod, container string, previous bool) {
	name := fmt.Sprintf("logs/%s/%s.log", p.Name, container)
	if previous {
		name = fmt.Sprintf("logs/%s/%s.previous.log", p.Name, container)
	}
	stream, err := c.api.Get().AbsPath("/api/v1/namespaces", p.Namespace, "pods", p.Name, "log").Param("container",
		container).
		Param("previous", strconv.FormatBool(previous)).Param("tailLines", strconv.Itoa(logLines)).Param("timestamps",
		"true").Stream(ctx)
	if previous && apierrors.IsBadRequest(err) {
		return // The kubelet has deleted this log.
	}
	if err != nil {
		c.LeaveOut(name, err.Error())
		return
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, maxLog))
	if err != nil {
		c.LeaveOut(name, "only the part before an error is here: "+err.Error())
	}
	if len(text) == maxLog {
		c.LeaveOut(name, fmt.Sprintf("it is longer than %d bytes; the end is missing", maxLog))
	}
	c.text(name, string(text[max(0, len(text)-maskedLog):]))
}

// priority orders pods: controllers and servers, then daemons that are not ready, then the other daemons.
func priority(p *corev1.Pod) int {
	if !isDaemon(p) {
		return 0
	}
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if !ready || slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.RestartCount > 0
	}) {
		return 1
	}
	return 2
}

func isDaemon(p *corev1.Pod) bool {
	return p.Labels["app.kubernetes.io/name"] == "machine-config-daemon"
}

const (
	pageSize = 500
	// of one kind
	maxObjects = 5000
	// the waiting nodes for which a bundle has the reason
	maxWhy = 100
)

// kind: an empty namespace means all.
type kind struct{ group, version, kind, namespace string }

func (c collector) objects(ctx context.Context, k kind) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind + "List"})
	dir, count := path.Join("objects", strings.ToLower(k.kind)), 0
	for {
		if err := c.client.List(ctx, list, client.InNamespace(k.namespace), client.Limit(pageSize),
			client.Continue(list.GetContinue())); err != nil {
			c.LeaveOut(dir, err.Error())
			return
		}
		for i := range list.Items {
			o := &list.Items[i]
			if k.kind == "CustomResourceDefinition" && !isOwnKind(o.GetName()) {
				continue
			}
			if count++; count > maxObjects {
				c.LeaveOut(dir, fmt.Sprintf("only the first %d objects are here", maxObjects))
				return
			}
			text, err := MaskedObject(o)
			if err != nil {
				c.LeaveOut(path.Join(dir, o.GetName()), err.Error())
				continue
			}
			c.Add(path.Join(dir, o.GetNamespace(), fileName(o.GetName())+".yaml"), text)
		}
		if list.GetContinue() == "" {
			return
		}
	}
}

func isOwnKind(crd string) bool {
	return strings.HasSuffix(crd, ".bunsen.dev") || strings.Contains(crd, "machineconfig")
}

// fileName makes a file name: names of certificate requests and roles can contain colons.
func fileName(name string) string { return strings.NewReplacer("/", "_", ":", "_").Replace(name) }

func (c collector) answers(ctx context.Context) {
	cluster, err := ReadAll(ctx, c.client)
	if err != nil {
		c.LeaveOut("status.txt and why", err.Error())
		return
	}
	status := inspect.NewStatus(cluster, c.At)
	c.text("status.txt", status.Text())
	for i := range cluster.Pools {
		c.why("pool", cluster.Pools[i].Name, cluster, inspect.WhyPool)
	}
	for i := range cluster.Sources {
		c.why("gitsource", cluster.Sources[i].Name, cluster, inspect.WhySource)
	}
	waiting := 0
	for _, n := range status.Nodes {
		if n.Reason == "" {
			continue
		}
		if waiting++; waiting > maxWhy {
			c.LeaveOut("why/node_"+n.Name+".txt", fmt.Sprintf("the bundle has the reasons of %d nodes", maxWhy))
			continue
		}
		c.why("node", n.Name, cluster, inspect.WhyNode)
	}
}

func (c collector) why(kind, name string, cluster fleet.Cluster,
	ask func(fleet.Cluster, string, time.Time) (inspect.Why, error),
) {
	file := fmt.Sprintf("why/%s_%s.txt", kind, fileName(name))
	answer, err := ask(cluster, name, c.At)
	if err != nil {
		c.LeaveOut(file, err.Error())
		return
	}
	c.text(file, answer.Text(c.At))
}

func (c collector) text(name, text string) { c.Add(name, []byte(MaskedText(safetext.Lines(text)))) }
