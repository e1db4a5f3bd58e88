package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Applier applies the changes that a user requested.
type Applier struct {
	Client client.Client
	Out    io.Writer
	DryRun bool
}

// Apply applies the changes in their order, and prints each with the equivalent command line. A failure does not stop
// it: the next change is about another node.
func (a Applier) Apply(ctx context.Context, order HoldOrder) error {
	var errs []error
	for _, change := range order.Changes {
		options := []client.PatchOption{client.FieldOwner("bunsen")}
		did, line := change.Did, change.Kubectl()
		if a.DryRun {
			options = append(options, client.DryRunAll)
			did, line = did+" (dry run: nothing is changed)", line+" --dry-run=server"
		}
		if err := a.Client.Patch(ctx, change.Object(), client.RawPatch(types.MergePatchType, change.Patch),
			options...); err != nil {
			errs = append(errs, RequestError("changing "+change.Resource+"/"+change.Name, err))
			continue
		}
		if _, err := fmt.Fprintf(a.Out, "%s\n  %s\n", safetext.Lines(did), safetext.Lines(line)); err != nil {
			return fmt.Errorf("printing the result: %w", err)
		}
	}
	for _, note := range order.Notes {
		if _, err := fmt.Fprintln(a.Out, safetext.Lines(note)); err != nil {
			return fmt.Errorf("printing the result: %w", err)
		}
	}
	return errors.Join(errs...)
}

// Target is the cluster that a verb reads.
type Target struct {
	kubeconfig, context string
}

// TargetOf returns the cluster that the flags of a command name.
func TargetOf(cmd *cobra.Command) *Target {
	return &Target{cmd.Flag("kubeconfig").Value.String(), cmd.Flag("context").Value.String()}
}

// AddFlags adds the flags that name a cluster.
func (t *Target) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.kubeconfig, "kubeconfig", "", "path of the kubeconfig; empty: $KUBECONFIG, then "+
		"~/.kube/config")
	cmd.Flags().StringVar(&t.context, "context", "", "context of the kubeconfig; empty: its current one")
}

// Connect creates a client of the cluster.
func (t *Target) Connect() (client.Client, error) {
	rc, err := t.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(rc, client.Options{Scheme: scheme})
	if err != nil {
		return nil, cli.Unreachable(fmt.Errorf("connecting to %s: %w", rc.Host, err))
	}
	return c, nil
}

// Scheme returns the scheme with all kinds that bunsen reads or writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, certificatesv1.AddToScheme,
		coordinationv1.AddToScheme, mcfgv1.Install, operatorv1.Install, authenticationv1.AddToScheme,
		authorizationv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return scheme, nil
}

// Config reads the kubeconfig.
func (t *Target) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.kubeconfig
	rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: t.context}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, cli.Unreachable(noKubeconfig(rules))
	case err != nil:
		return nil, cli.Unreachable(fmt.Errorf("reading the kubeconfig: %w; --kubeconfig and --context choose another",
			err))
	}
	rc.QPS, rc.Burst = 50, 100
	return rc, nil
}

// Name returns the cluster's name in the kubeconfig; empty if there is none.
func (t *Target) Name() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return ""
	}
	if at := config.Contexts[cmp.Or(t.context, config.CurrentContext)]; at != nil {
		return at.Cluster
	}
	return ""
}

// noKubeconfig names the places where bunsen searched.
func noKubeconfig(rules *clientcmd.ClientConfigLoadingRules) error {
	if set := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); set != "" && rules.ExplicitPath == "" {
		return fmt.Errorf("KUBECONFIG is %s, and there is no kubeconfig: correct it, or name a file with --kubeconfig",
			set)
	}
	return errors.New("there is no kubeconfig: name one with --kubeconfig, or set KUBECONFIG")
}

func groupsOf(err *apiutil.ErrResourceDiscoveryFailed) string {
	var groups []string
	for gv := range *err {
		groups = append(groups, gv.String())
	}
	slices.Sort(groups)
	return strings.Join(groups, ", ")
}

// The roles in config/rbac/users.yaml that allow users to read objects.
const (
	// everything except MachineConfigs, which contain secrets
	viewerRole       = "bunsen-viewer"
	ConfigViewerRole = "bunsen-config-viewer"
)

// ReadError explains why a read failed that viewerRole would allow.
func ReadError(what string, err error) error { return ReadErrorFor(viewerRole, what, err) }

// ReadErrorFor explains why a read failed. Without permission, it names the role that grants it.
func ReadErrorFor(role, what string, err error) error {
	explained := RequestError("reading "+what, err)
	if apierrors.IsForbidden(err) {
		return cli.Unreachable(fmt.Errorf("%w; ClusterRole %s grants it", explained, role))
	}
	return explained
}

// RequestError explains why a request to the cluster failed.
func RequestError(doing string, err error) error {
	var missing *meta.NoKindMatchError
	var dial *url.Error
	var undiscovered *apiutil.ErrResourceDiscoveryFailed
	switch {
	case errors.As(err, &missing):
		return cli.Invalid(fmt.Errorf("%s: the cluster does not know the kind %s; install the kinds first: kubectl "+
			"apply -k config/", doing, missing.GroupKind))
	case apierrors.IsNotFound(err):
		return cli.Invalid(fmt.Errorf("%s: there is none of that name on the cluster", doing))
	case errors.As(err, &dial):
		return cli.Unreachable(fmt.Errorf("%s: the cluster does not answer: %w; is it running? --kubeconfig and "+
			"--context choose another", doing, dial))
	case apierrors.IsForbidden(err):
		return cli.Unreachable(fmt.Errorf("permission denied: %s: %w", doing, err))
	case apierrors.IsUnauthorized(err):
		return cli.Unreachable(fmt.Errorf("permission denied: %s: the cluster does not accept your credentials: %w",
			doing, err))
	case errors.As(err, &undiscovered):
		return cli.Unreachable(fmt.Errorf("%s: the API server does not serve %s. If it is starting, try again in a "+
			"few seconds; if Bunsen is not installed, run `bunsen install`", doing, groupsOf(undiscovered)))
	case apierrors.IsInvalid(err):
		return cli.Invalid(fmt.Errorf("%s: %w", doing, err))
	default:
		return cli.Unreachable(fmt.Errorf("%s: %w", doing, err))
	}
}

// Read reads all objects that a status shows, without heartbeats.
func Read(ctx context.Context, c client.Reader) (fleet.Cluster, error) {
	out, err := ReadWatched(ctx, c)
	if err == nil {
		out.Secrets, err = ReadSecrets(ctx, c)
	}
	return out, err
}

// ReadWatched reads the objects that a live status watches.
func ReadWatched(ctx context.Context, c client.Reader) (fleet.Cluster, error) {
	out, err := ReadObjects(ctx, c)
	if err == nil {
		err = readConfigs(ctx, c, &out)
	}
	return out, err
}

// ReadSecrets reads the published revisions of secrets, which contain no value. A user without permission to read them
// gets a note.
func ReadSecrets(ctx context.Context, c client.Reader) (fleet.Secrets, error) {
	const place = v1alpha1.ServerNamespace + "/" + v1alpha1.SecretsConfigMap
	var m corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.ServerNamespace, Name: v1alpha1.SecretsConfigMap}, &m)
	switch {
	case apierrors.IsNotFound(err):
		return fleet.Secrets{}, nil
	case apierrors.IsForbidden(err):
		return fleet.Secrets{Note: "not shown, because you may not read ConfigMap " + place + "; ClusterRole " +
			viewerRole + " grants it"}, nil
	case err != nil:
		return fleet.Secrets{}, ReadError("ConfigMap "+place, err)
	}
	out := fleet.Secrets{Revisions: make(map[string]v1alpha1.SecretsRevision, len(m.Data))}
	for config, text := range m.Data {
		var entry v1alpha1.SecretsRevision
		if json.Unmarshal([]byte(text), &entry) == nil { // The controller ignores an entry that cannot be read too.
			out.Revisions[config] = entry
		}
	}
	return out, nil
}

// ReadObjects reads the same objects as Read, without the rendered configs.
func ReadObjects(ctx context.Context, c client.Reader) (fleet.Cluster, error) {
	var out fleet.Cluster
	var sources v1alpha1.GitSourceList
	var pools mcfgv1.MachineConfigPoolList
	var nodes corev1.NodeList
	var policies v1alpha1.RolloutPolicyList
	for _, l := range []struct {
		what string
		list client.ObjectList
	}{{"GitSources", &sources}, {"MachineConfigPools", &pools}, {"Nodes", &nodes}, {"RolloutPolicies", &policies}} {
		// No caller changes the objects.
		if err := c.List(ctx, l.list, client.UnsafeDisableDeepCopy); err != nil {
			return out, ReadError(l.what, err)
		}
	}
	out.Sources, out.Pools, out.Nodes, out.Policies = sources.Items, pools.Items, nodes.Items, policies.Items
	return out, nil
}

// readConfigs adds the rendered configs with their commits. A user who may not read MachineConfigs gets a note on
// standard error instead.
func readConfigs(ctx context.Context, c client.Reader, cluster *fleet.Cluster) error {
	configs := &metav1.PartialObjectMetadataList{TypeMeta: ConfigsMeta}
	err := c.List(ctx, configs, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsForbidden(err):
		fmt.Fprintf(os.Stderr, "permission denied: you may not read MachineConfigs, so the output has no commits and "+
			"no history. ClusterRole %s grants that right\n", ConfigViewerRole)
		cluster.Rendered = NamedConfigs(*cluster)
		return nil
	case err != nil:
		return ReadErrorFor(ConfigViewerRole, "MachineConfigs", err)
	}
	cluster.Rendered = fleet.RenderedRows(configs.Items)
	return nil
}

// NamedConfigs returns the rendered configs that pools and nodes name, without further data, for a user who may not
// read them.
func NamedConfigs(cluster fleet.Cluster) []fleet.RenderedRow {
	pools := map[string]string{} // pools maps the name of a config, rendered-POOL-HASH, to its pool.
	add := func(name string) {
		if pool := v1alpha1.RenderedPool(name); pool != "" {
			pools[name] = pool
		}
	}
	for i := range cluster.Pools {
		add(cluster.Pools[i].Spec.Configuration.Name)
		add(cluster.Pools[i].Status.Configuration.Name)
	}
	for i := range cluster.Nodes {
		add(cluster.Nodes[i].Annotations[v1alpha1.CurrentConfigAnnotation])
		add(cluster.Nodes[i].Annotations[v1alpha1.DesiredConfigAnnotation])
	}
	var rows []fleet.RenderedRow
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		rows = append(rows, fleet.RenderedRow{Name: name, Pool: pools[name]})
	}
	return rows
}

// ConfigsMeta requests only the metadata of MachineConfigs, because their content may be megabytes.
var ConfigsMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigList"}

// WhoAmI returns the user name that the cluster reports for this client, or else the user name on this machine.
func WhoAmI(ctx context.Context, c client.Client) string {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err == nil && review.Status.UserInfo.Username != "" {
		return review.Status.UserInfo.Username
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "an unknown user"
}
