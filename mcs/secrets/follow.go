package secrets

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

const (
	// between two reads, and for one
	readInterval, readTimeout = 5 * time.Second, 20 * time.Second
	// of rendered configs at a time; a pool may have thousands, of single nodes
	configReads = 8
	// for the files of all configs to wait for a key service; what is left is for later
	decryptTimeout = 10 * time.Second
	// contents of files that configs share
	maxTexts = 10_000
)

// Options of a Follower. All are required.
type Options struct {
	// The error is an *mcs.NotForNodeError if the cluster does not have the node.
	Pools func(ctx context.Context, node string) ([]string, error)
	// decrypts files with age keys, each of which is the text of one or more, until the context ends. The error says
	// which cannot be read; the others are used.
	NewDecrypt func(ctx context.Context, keys [][]byte) (Decrypt, error)
	Now        func() time.Time
	// Log gets each problem once.
	Log *slog.Logger
}

// Follower resolves the secrets of the rendered configs that pools refer to. Its methods may be called concurrently.
//
// Reads: MachineConfigPool (list), MachineConfig (get), Secret, ConfigMap in v1alpha1.SecretsNamespace (list), Secret
// v1alpha1.AgeKeysSecret (get). Writes: Secret and ConfigMap v1alpha1.SecretsConfigMap.
type Follower struct {
	Options
	api api

	// Only Read uses these.
	known    map[string]parsedConfig                           // the configs that were read, by name
	texts    map[[sha256.Size]byte]machineconfig.SecretContent // contents of files, by their digest
	digest   string                                            // identifies everything from which own follows
	own      State                                             // what this server could resolve; nil at first
	problems string                                            // the problems that were logged last
	retry    retry                                             // when the key service is asked again

	mu    sync.Mutex
	state State // what is served, beside other servers; nil until it is known
}

type parsedConfig struct {
	config Config
	has    bool
}

// NewFollower prepares to read an API server.
func NewFollower(config *rest.Config, o Options) (*Follower, error) {
	api, err := newAPI(config)
	if err != nil {
		return nil, err
	}
	return &Follower{
		Options: o, api: api, known: map[string]parsedConfig{},
		texts: map[[sha256.Size]byte]machineconfig.SecretContent{},
	}, nil
}

func newAPI(config *rest.Config) (api, error) {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return api{}, fmt.Errorf("preparing the API client for secrets: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := mcfgv1.Install(scheme); err != nil {
		return api{}, fmt.Errorf("preparing the API client for secrets: %w", err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &mcfgv1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.QPS = -1 // The library's limit of 5 requests in a second would need minutes for the configs of a large pool.
	configs, err := rest.RESTClientFor(config)
	if err != nil {
		return api{}, fmt.Errorf("preparing the API client for secrets: %w", err)
	}
	return api{client, configs}, nil
}

// api has the rights of machine-config-server.
type api struct {
	client  typedcorev1.CoreV1Interface
	configs rest.Interface // MachineConfigPool, MachineConfig
}

// Run reads the objects until the context ends. The error is nil.
func (f *Follower) Run(ctx context.Context) error {
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	for {
		if err := f.Read(ctx); ctx.Err() == nil {
			f.logProblem(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Read reads the objects once, resolves the configs and publishes the revisions. After an error, the contents in force
// stay. A reference that cannot be resolved is no error: it is published.
func (f *Follower) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	// Before the pools: another server that publishes a newer config meanwhile makes the update a conflict.
	published, err := f.api.published(ctx)
	if err != nil {
		return err
	}
	names, recorded, err := f.api.referencedConfigs(ctx)
	if err != nil {
		return err
	}
	configs, err := f.configs(ctx, names)
	if err != nil {
		return err
	}
	if len(configs) == 0 && len(published.revisions) == 0 {
		f.own, f.digest = State{}, ""
		f.set(State{})
		return nil // a cluster without secrets needs no other request
	}
	in, err := f.api.read(ctx)
	if err != nil {
		return err
	}
	in.recorded = recorded
	return f.resolve(ctx, configs, in, published)
}

// resolve does nothing if nothing has changed since the last call.
func (f *Follower) resolve(ctx context.Context, configs []Config, in sources, published publication) error {
	digest := in.digest
	for _, c := range configs {
		digest += fmt.Sprintf(" %s %d", c.Name, len(c.Own))
	}
	next := f.own
	var keyProblem error
	if next == nil || digest != f.digest || f.retry.isDue(f.Now()) {
		ctx, cancel := context.WithTimeout(ctx, decryptTimeout)
		defer cancel()
		var decrypt Decrypt
		if decrypt, keyProblem = f.NewDecrypt(ctx, in.ageKeys); keyProblem != nil {
			digest = "" // report the problem again after the next read
		}
		failed := false
		next = Next(next, configs, Source{
			Objects: in.objects, Key: in.revisionKey, Published: published.revisions,
			Decrypt: func(format string, body []byte) ([]byte, error) {
				plain, err := decrypt(format, body)
				failed = failed || errors.Is(err, ErrKeyService)
				return plain, err
			},
		})
		f.retry = f.retry.after(failed, f.Now())
	}
	f.own, f.digest = next, digest
	public := WithEarlier(Beside(next, published.revisions), published.revisions, in.recorded)
	if is, err := f.api.publish(ctx, published, public); err != nil || !is {
		return errors.Join(err, keyProblem)
	}
	f.own = Told(next)
	f.set(public) // after publish, so that a node gets contents only when their revision is public
	return errors.Join(keyProblem, alone(next, public))
}

// alone returns the problems that another server does not have: nobody sees them in what is published.
func alone(own, public State) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if bad := own[name].Published.Problems; len(bad) > 0 &&
			!slices.Equal(bad, public[name].Published.Problems) {
			errs = append(errs, fmt.Errorf("resolving the files of %s, which another server could: %s", name,
				bad[0].Message))
		}
	}
	return errors.Join(errs...)
}

// read reads the Secrets and ConfigMaps that configs may refer to, and the keys.
func (a api) read(ctx context.Context) (sources, error) {
	out := sources{objects: Objects{}}
	versions := sha256.New()
	add := func(kind machineconfig.SecretKind, m metav1.ObjectMeta, data map[string][]byte) {
		changed, manager := lastChange(m)
		out.objects[ID(kind, m.Name)] = Object{
			Pools: m.Annotations[v1alpha1.SecretPoolsAnnotation],
			Data:  data, Changed: changed, Manager: manager,
		}
		fmt.Fprintln(versions, kind, m.Name, m.UID, m.ResourceVersion)
	}
	secretList, err := a.client.Secrets(v1alpha1.SecretsNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return sources{}, fmt.Errorf("reading the Secrets of namespace %s: %w", v1alpha1.SecretsNamespace, err)
	}
	for _, s := range secretList.Items {
		add(machineconfig.Secret, s.ObjectMeta, s.Data)
	}
	mapList, err := a.client.ConfigMaps(v1alpha1.SecretsNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return sources{}, fmt.Errorf("reading the ConfigMaps of namespace %s: %w", v1alpha1.SecretsNamespace, err)
	}
	for _, m := range mapList.Items {
		data := maps.Clone(m.BinaryData)
		if data == nil {
			data = map[string][]byte{}
		}
		for key, value := range m.Data {
			data[key] = []byte(value)
		}
		add(machineconfig.ConfigMap, m.ObjectMeta, data)
	}
	age, err := a.client.Secrets(v1alpha1.ServerNamespace).Get(ctx, v1alpha1.AgeKeysSecret, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return sources{}, fmt.Errorf("reading the age keys in Secret %s/%s: %w", v1alpha1.ServerNamespace,
			v1alpha1.AgeKeysSecret, err)
	}
	if err == nil {
		for _, key := range slices.Sorted(maps.Keys(age.Data)) {
			out.ageKeys = append(out.ageKeys, age.Data[key])
		}
		fmt.Fprintln(versions, "age", age.UID, age.ResourceVersion)
	}
	key, err := a.revisionKey(ctx)
	if err != nil {
		return sources{}, err
	}
	out.revisionKey = key.Data[revisionKey]
	fmt.Fprintln(versions, "key", key.UID, key.ResourceVersion)
	out.digest = hex.EncodeToString(versions.Sum(nil))
	return out, nil
}

// sources are what the resolved contents follow from, besides the configs.
type sources struct {
	objects     Objects
	ageKeys     [][]byte
	revisionKey []byte
	// revisions in the records of pools
	recorded map[string]bool
	// changes with the versions of the objects; no digest of their values
	digest string
}

// retry is when the key service is asked again after it failed.
type retry struct {
	wait time.Duration
	at   time.Time // zero if it did not fail
}

const maxWait = 5 * time.Minute

func (r retry) isDue(now time.Time) bool { return !r.at.IsZero() && !now.Before(r.at) }

// after doubles the wait with each failure.
func (r retry) after(failed bool, now time.Time) retry {
	if !failed {
		return retry{}
	}
	wait := min(max(2*r.wait, readInterval), maxWait)
	return retry{wait, now.Add(wait)}
}

func (f *Follower) set(state State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = state
}

// configs returns those with unresolved files. It reads each once, also if a read fails.
func (f *Follower) configs(ctx context.Context, names []string) ([]Config, error) {
	if err := f.readConfigs(ctx, names); err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	var out []Config
	for _, name := range names {
		p, exists := f.known[name]
		if needed[name] = true; !exists || !p.has {
			continue
		}
		if !p.config.Nodes.IsZero() {
			own := p.config.Nodes.All()
			if err := f.readConfigs(ctx, own); err != nil {
				return nil, err
			}
			p.config.Own = make(map[string]Config, len(own))
			for _, name := range own {
				needed[name] = true
				if is, exists := f.known[name]; exists && name != p.config.Nodes.Base {
					p.config.Own[name] = is.config
				}
			}
		}
		out = append(out, p.config)
	}
	maps.DeleteFunc(f.known, func(name string, _ parsedConfig) bool { return !needed[name] })
	return out, nil
}

// readConfigs ignores configs that do not exist.
func (f *Follower) readConfigs(ctx context.Context, names []string) error {
	var group errgroup.Group
	group.SetLimit(configReads)
	var mu sync.Mutex
	for _, name := range names {
		mu.Lock()
		_, known := f.known[name]
		mu.Unlock()
		if known {
			continue
		}
		group.Go(func() error {
			rendered, err := f.api.renderedConfig(ctx, name)
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading config %s: %w", name, err)
			}
			var p parsedConfig
			p.config, p.has = Read(rendered)
			mu.Lock()
			defer mu.Unlock()
			f.shareTexts(p.config)
			f.known[name] = p
			return nil
		})
	}
	return group.Wait()
}

// shareTexts makes equal contents of several configs share their memory: those of thousands of nodes have the same
// templates and encrypted files.
func (f *Follower) shareTexts(c Config) {
	if len(f.texts) > maxTexts {
		clear(f.texts)
	}
	for i, file := range c.Files {
		key := sha256.Sum256([]byte(file.Content.Format + "\n" + file.Content.Template + string(file.Content.Body)))
		if known, had := f.texts[key]; had {
			c.Files[i].Content = known
		} else {
			f.texts[key] = file.Content
		}
	}
}

// NodeSecrets returns the resolved files of a rendered config, a v1alpha1.NodeSecrets in JSON. The error is an
// *mcs.NotForNodeError if the node is in another pool or the config is that of other nodes, mcs.ErrNoSuchConfig if no
// pool refers to a config of that name with unresolved files, and mcs.ErrSecretsUnresolved if the server does not have
// the contents.
func (f *Follower) NodeSecrets(ctx context.Context, node, config string) ([]byte, error) {
	pools, err := f.Pools(ctx, node)
	if refused := new(mcs.NotForNodeError); errors.As(err, &refused) {
		refused.Config = config
	}
	if err == nil {
		err = mcs.CheckNodeConfig(node, pools, config)
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	state := f.state
	f.mu.Unlock()
	is, found, allowed := state.ForNode(node, config)
	switch {
	case state == nil:
		return nil, fmt.Errorf("%w: the secrets of configs were not read yet", mcs.ErrAPIUnavailable)
	case !found:
		return nil, fmt.Errorf("reading the secrets of config %s: %w", config, mcs.ErrNoSuchConfig)
	case !allowed:
		return nil, &mcs.NotForNodeError{
			Node: node, Config: config,
			Why: errors.New("its secrets are those of other nodes"),
		}
	case is.Files == nil:
		return nil, fmt.Errorf("reading the secrets of config %s: %w", config, mcs.ErrSecretsUnresolved)
	}
	return json.Marshal(v1alpha1.NodeSecrets{Config: config, Revision: is.Revision, Files: is.Files})
}

// Resolved returns the contents of a config's unresolved files, and whether the server has them.
func (f *Follower) Resolved(config string) (mcs.Secrets, bool) {
	f.mu.Lock()
	state := f.state
	f.mu.Unlock()
	is, ok := state.ForMachine(config)
	if !ok {
		return mcs.Secrets{}, false
	}
	out := mcs.Secrets{Revision: is.Revision, Contents: map[string][]byte{}}
	for _, file := range is.Files {
		out.Contents[file.Path] = file.Contents
	}
	return out, true
}

// logProblem logs a problem, or nil after it is gone, unless it is the one that was logged last.
func (f *Follower) logProblem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == f.problems:
	case err == nil:
		f.Log.Info("the secrets of configs can be read again")
	default:
		f.Log.Warn("nodes keep the secrets that they have", "error", text)
	}
	f.problems = text
}

// revisionKey is in the Secret v1alpha1.SecretsConfigMap. The servers compute revisions with it.
const revisionKey = "revision.key"

// referencedConfigs returns the sorted names of the rendered configs that pools refer to, and the revisions of secrets
// in the records of their rollouts.
func (a api) referencedConfigs(ctx context.Context) (names []string, recorded map[string]bool, err error) {
	pools := &mcfgv1.MachineConfigPoolList{}
	// Never of version "0": an API server whose memory is late would have the revision of a newer config removed.
	if err := a.configs.Get().Resource("machineconfigpools").Do(ctx).Into(pools); err != nil {
		return nil, nil, fmt.Errorf("reading the configs of pools: %w", err)
	}
	recorded = map[string]bool{}
	for i := range pools.Items {
		names = append(names, mcs.ConfigsOf(&pools.Items[i])...)
		if r, err := v1alpha1.ParseRolloutRecord(pools.Items[i].Annotations[v1alpha1.RolloutAnnotation]); err == nil {
			recorded[r.Secrets], recorded[r.HealthySecrets], recorded[r.BackSecrets] = true, true, true
		}
	}
	slices.Sort(names)
	return slices.Compact(names), recorded, nil
}

func (a api) renderedConfig(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
	rendered := &mcfgv1.MachineConfig{}
	return rendered, a.configs.Get().Resource("machineconfigs").Name(name).Do(ctx).Into(rendered)
}

// revisionKey creates the Secret if there is none.
func (a api) revisionKey(ctx context.Context) (*corev1.Secret, error) {
	client, name := a.client.Secrets(v1alpha1.ServerNamespace), v1alpha1.SecretsConfigMap
	read, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		random := make([]byte, KeySize)
		if _, err := rand.Read(random); err != nil {
			return nil, fmt.Errorf("creating the key for the revisions of secrets: %w", err)
		}
		read = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{revisionKey: random}}
		read, err = client.Create(ctx, read, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another server was first
			read, err = client.Get(ctx, name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key for the revisions of secrets in Secret %s/%s: %w",
			v1alpha1.ServerNamespace, name, err)
	}
	if len(read.Data[revisionKey]) < KeySize {
		return nil, fmt.Errorf("reading the key for revisions: Secret %s/%s has no value %s of %d bytes: delete the "+
			"Secret, and the server creates it again", v1alpha1.ServerNamespace, name, revisionKey, KeySize)
	}
	return read, nil
}

// lastChange returns when an object's values or annotations changed last, and which field manager changed them.
func lastChange(m metav1.ObjectMeta) (time.Time, string) {
	changed, manager := m.CreationTimestamp.Time, ""
	for _, f := range m.ManagedFields {
		if f.Subresource == "" && f.Time != nil && !f.Time.Time.Before(changed) {
			changed, manager = f.Time.Time, f.Manager
		}
	}
	return changed.UTC(), manager
}

type publication struct {
	object *corev1.ConfigMap // nil if there is none
	// those that can be read, by name of the config
	revisions map[string]v1alpha1.SecretsRevision
}

func (a api) published(ctx context.Context) (publication, error) {
	object, err := a.client.ConfigMaps(v1alpha1.ServerNamespace).Get(ctx, v1alpha1.SecretsConfigMap,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return publication{}, nil
	}
	if err != nil {
		return publication{}, fmt.Errorf("reading ConfigMap %s/%s: %w", v1alpha1.ServerNamespace,
			v1alpha1.SecretsConfigMap, err)
	}
	out := publication{object, map[string]v1alpha1.SecretsRevision{}}
	for name, text := range object.Data {
		var revision v1alpha1.SecretsRevision
		if json.Unmarshal([]byte(text), &revision) == nil { // what a user changed is written again
			out.revisions[name] = revision
		}
	}
	return out, nil
}

// publish writes nothing if the ConfigMap has the state. It returns false if another server has just written it: the
// next read compares again.
func (a api) publish(ctx context.Context, have publication, state State) (bool, error) {
	data := map[string]string{}
	for name, entry := range state {
		text, err := json.Marshal(entry.Published)
		if err != nil {
			return false, fmt.Errorf("encoding the revision of the secrets of config %s: %w", name, err)
		}
		data[name] = string(text)
	}
	client, err := a.client.ConfigMaps(v1alpha1.ServerNamespace), error(nil)
	switch {
	case have.object == nil && len(data) == 0, have.object != nil && maps.Equal(have.object.Data, data) &&
		len(have.object.BinaryData) == 0:
		return true, nil
	case have.object == nil:
		_, err = client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SecretsConfigMap},
			Data:       data,
		}, metav1.CreateOptions{})
	default:
		next := have.object.DeepCopy()
		next.Data, next.BinaryData = data, nil
		_, err = client.Update(ctx, next, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("publishing the revisions of secrets in ConfigMap %s/%s: %w",
			v1alpha1.ServerNamespace, v1alpha1.SecretsConfigMap, err)
	}
	return true, nil
}
