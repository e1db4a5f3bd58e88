package secrets

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// revisionKey is in the Secret v1alpha1.SecretsConfigMap. The servers compute revisions with it.
const revisionKey = "revision.key"

// api has the rights of machine-config-server.
type api struct {
	client  typedcorev1.CoreV1Interface
	configs rest.Interface // MachineConfigPool, MachineConfig
}

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

// publish writes nothing if the ConfigMap has the state.
func (a api) publish(ctx context.Context, have publication, state State) error {
	data := map[string]string{}
	for name, entry := range state {
		text, err := json.Marshal(entry.Published)
		if err != nil {
			return fmt.Errorf("encoding the revision of the secrets of config %s: %w", name, err)
		}
		data[name] = string(text)
	}
	client, err := a.client.ConfigMaps(v1alpha1.ServerNamespace), error(nil)
	switch {
	case have.object == nil && len(data) == 0, have.object != nil && maps.Equal(have.object.Data, data) &&
		len(have.object.BinaryData) == 0:
		return nil
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
		return nil // another server wrote it; the next read compares again
	}
	if err != nil {
		return fmt.Errorf("publishing the revisions of secrets in ConfigMap %s/%s: %w", v1alpha1.ServerNamespace,
			v1alpha1.SecretsConfigMap, err)
	}
	return nil
}
