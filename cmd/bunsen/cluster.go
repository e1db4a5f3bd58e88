package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
)

// target is the cluster that a verb reads.
type target struct {
	kubeconfig, context string
}

func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.kubeconfig, "kubeconfig", "", "path of the kubeconfig; empty: $KUBECONFIG, then ~/.kube/config")
	cmd.Flags().StringVar(&t.context, "context", "", "context of the kubeconfig; empty: its current one")
}

// connect checks the form of the output first, so that a mistake shows without a cluster.
func (t *target) connect(o output) (client.Client, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	rc, err := t.config()
	if err != nil {
		return nil, err
	}
	scheme, err := kinds()
	if err != nil {
		return nil, err
	}
	c, err := client.New(rc, client.Options{Scheme: scheme})
	if err != nil {
		return nil, unreachable(fmt.Errorf("connecting to %s: %w", rc.Host, err))
	}
	return c, nil
}

// kinds are all that bunsen speaks of with a cluster.
func kinds() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, mcfgv1.Install, operatorv1.Install, authenticationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return scheme, nil
}

// config reads the kubeconfig.
func (t *target) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.kubeconfig
	rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: t.context}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, unreachable(noKubeconfig(rules))
	case err != nil:
		return nil, unreachable(fmt.Errorf("reading the kubeconfig: %w; --kubeconfig and --context choose another", err))
	}
	rc.QPS, rc.Burst = 50, 100
	return rc, nil
}

// noKubeconfig says where a kubeconfig was looked for.
func noKubeconfig(rules *clientcmd.ClientConfigLoadingRules) error {
	if set := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); set != "" && rules.ExplicitPath == "" {
		return fmt.Errorf("KUBECONFIG is %s, and there is no kubeconfig: correct it, or name a file with --kubeconfig", set)
	}
	return errors.New("there is no kubeconfig: name one with --kubeconfig, or set KUBECONFIG")
}

// groupsOf lists the API groups that could not be discovered.
func groupsOf(err *apiutil.ErrResourceDiscoveryFailed) string {
	var groups []string
	for gv := range *err {
		groups = append(groups, gv.String())
	}
	slices.Sort(groups)
	return strings.Join(groups, ", ")
}

// The roles of config/rbac/people.yaml that let people read.
const (
	// viewerRole lets read all but MachineConfigs, which hold secrets.
	viewerRole = "bunsen-viewer"
	// configViewerRole lets read MachineConfigs.
	configViewerRole = "bunsen-config-viewer"
)

// unread explains why a read failed that viewerRole allows.
func unread(what string, err error) error { return unreadFor(viewerRole, what, err) }

// unreadFor explains why a read failed. If permission is missing, the error names the role that grants it.
func unreadFor(role, what string, err error) error {
	explained := undone("reading "+what, err)
	if apierrors.IsForbidden(err) {
		return unreachable(fmt.Errorf("%w; ClusterRole %s grants it", explained, role))
	}
	return explained
}

// undone explains why something failed that the cluster was asked to do.
func undone(doing string, err error) error {
	var missing *meta.NoKindMatchError
	var dial *url.Error
	var undiscovered *apiutil.ErrResourceDiscoveryFailed
	switch {
	case errors.As(err, &missing):
		return invalid(fmt.Errorf("%s: the cluster does not know the kind %s; install the kinds first: kubectl apply -k config/", doing, missing.GroupKind))
	case apierrors.IsNotFound(err):
		return invalid(fmt.Errorf("%s: there is none of that name on the cluster", doing))
	case errors.As(err, &dial):
		return unreachable(fmt.Errorf("%s: the cluster does not answer: %w; is it running? --kubeconfig and --context choose another", doing, dial))
	case apierrors.IsForbidden(err):
		return unreachable(fmt.Errorf("permission denied: %s: %w", doing, err))
	case apierrors.IsUnauthorized(err):
		return unreachable(fmt.Errorf("permission denied: %s: the cluster does not accept your credentials: %w", doing, err))
	case errors.As(err, &undiscovered):
		return unreachable(fmt.Errorf("%s: the API server does not serve %s yet: it is starting, or the kinds are not installed (kubectl apply -k config/); try again in a few seconds", doing, groupsOf(undiscovered)))
	case apierrors.IsInvalid(err):
		return invalid(fmt.Errorf("%s: %w", doing, err))
	default:
		return unreachable(fmt.Errorf("%s: %w", doing, err))
	}
}

// read gets everything that a status is made of.
func read(ctx context.Context, c client.Reader) (inspect.Cluster, error) {
	out, err := readObjects(ctx, c)
	if err == nil {
		err = readConfigs(ctx, c, &out)
	}
	return out, err
}

// readObjects gets all of it but the rendered configs.
func readObjects(ctx context.Context, c client.Reader) (inspect.Cluster, error) {
	var out inspect.Cluster
	var sources v1alpha1.GitSourceList
	var pools mcfgv1.MachineConfigPoolList
	var nodes corev1.NodeList
	var policies v1alpha1.RolloutPolicyList
	for _, l := range []struct {
		what string
		list client.ObjectList
	}{{"GitSources", &sources}, {"MachineConfigPools", &pools}, {"Nodes", &nodes}, {"RolloutPolicies", &policies}} {
		if err := c.List(ctx, l.list, client.UnsafeDisableDeepCopy); err != nil { // nothing is written to them
			return out, unread(l.what, err)
		}
	}
	out.Sources, out.Pools, out.Nodes, out.Policies = sources.Items, pools.Items, nodes.Items, policies.Items
	return out, nil
}

// readConfigs adds the rendered configs, with their commits. MachineConfigs hold secrets: a user who may not read them gets a note
// on standard error, and the commits are not shown.
func readConfigs(ctx context.Context, c client.Reader, cluster *inspect.Cluster) error {
	configs := &metav1.PartialObjectMetadataList{TypeMeta: configsMeta}
	err := c.List(ctx, configs, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsForbidden(err):
		fmt.Fprintf(os.Stderr, "permission denied: you may not read MachineConfigs, so commits and history are not shown; ClusterRole %s grants it\n", configViewerRole)
		cluster.Rendered = namedConfigs(*cluster)
		return nil
	case err != nil:
		return unreadFor(configViewerRole, "MachineConfigs", err)
	}
	cluster.Rendered = inspect.RenderedRows(configs.Items)
	return nil
}

// namedConfigs are the rendered configs that pools and nodes name, without anything else that is known of them: they are there, although
// this user may not read them.
func namedConfigs(cluster inspect.Cluster) []inspect.RenderedRow {
	pools := map[string]string{} // by the config's name, rendered-POOL-HASH
	add := func(name string) {
		if rest, ok := strings.CutPrefix(name, "rendered-"); ok {
			pools[name] = rest[:max(0, strings.LastIndexByte(rest, '-'))]
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
	var rows []inspect.RenderedRow
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		rows = append(rows, inspect.RenderedRow{Name: name, Pool: pools[name]})
	}
	return rows
}

// configsMeta asks for MachineConfigs without what they configure: that may be megabytes.
var configsMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigList"}

// output is the flag -o of the verbs that print a table.
type output string

const outputWords = "table, json or yaml"

func (o *output) flags(cmd *cobra.Command) {
	*o = "table"
	cmd.Flags().StringVarP((*string)(o), "output", "o", "table", outputWords)
}

func (o output) check() error {
	if !slices.Contains([]output{"table", "json", "yaml"}, o) {
		return invalid(fmt.Errorf("--output %q: want %s", string(o), outputWords))
	}
	return nil
}

// print writes text, or v as data.
func (o output) print(w io.Writer, text string, v any) error {
	if o == "table" {
		_, err := io.WriteString(w, text)
		return err
	}
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("printing as %s: %w", o, err)
	}
	if o == "yaml" {
		if raw, err = yaml.JSONToYAML(raw); err != nil {
			return fmt.Errorf("printing as yaml: %w", err)
		}
		_, err = w.Write(raw)
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", raw)
	return err
}
