package secrets

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Decrypt decrypts a file of one of machineconfig.SecretFormats. The error wraps ErrNoKey if no key fits, and
// ErrKeyService if the key service may decrypt it later. It contains no values.
type Decrypt func(format string, body []byte) ([]byte, error)

var (
	// ErrNoKey says that none of the server's keys decrypts a file.
	ErrNoKey = errors.New("no key of the server decrypts it")
	// ErrKeyService says that the key service was asked in vain. It may answer differently later.
	ErrKeyService = errors.New("the key service is asked again later")
)

// maxMessage limits an error of a file, in characters: the file decides how many keys it names.
const maxMessage = 4000

// Config is a rendered config with unresolved files.
type Config struct {
	Name string
	// its unresolved ones
	Files []machineconfig.SecretFile
	// why the references cannot be read; nil if they can
	invalid error
	// configs of single nodes, for the config of a pool with such nodes; Files are those of the base then, and Own the
	// others by name
	Nodes v1alpha1.NodeConfigs
	Own   map[string]Config
}

// Read returns the unresolved files of a rendered config, and whether it or a config of its Nodes has any. One whose
// references cannot be read has too: they are a problem. The caller reads the configs of Nodes.
func Read(rendered *mcfgv1.MachineConfig) (out Config, has bool) {
	defer func() {
		if p := recover(); p != nil {
			out, has = Config{Name: rendered.Name, invalid: fault.NewPanic(p)}, true
		}
	}()
	config, err := machineconfig.Parse(rendered.Spec)
	if err == nil {
		config, err = machineconfig.Flat(config)
	}
	if err != nil {
		return Config{}, false // Compose reports the error
	}
	files, err := machineconfig.SecretFiles(config)
	out = Config{Name: rendered.Name, Files: files, invalid: err}
	if nodes, err := v1alpha1.ParseNodeConfigs(rendered.Annotations[v1alpha1.NodeConfigsAnnotation]); err == nil &&
		nodes.Secrets && !nodes.IsZero() {
		out.Nodes = nodes
	}
	return out, out.hasSecrets() || !out.Nodes.IsZero()
}

func (c Config) hasSecrets() bool { return len(c.Files) > 0 || c.invalid != nil }

// resolve returns incomplete files if there is a problem.
func (c Config) resolve(objects Objects, decrypt Decrypt) ([]v1alpha1.SecretFile, []v1alpha1.SecretProblem) {
	if c.invalid != nil {
		return nil, []v1alpha1.SecretProblem{{
			Reason:  v1alpha1.SecretInvalid,
			Message: fmt.Sprintf("reading the references of %s: %v", c.Name, c.invalid),
		}}
	}
	files, problems, left := []v1alpha1.SecretFile{}, []v1alpha1.SecretProblem(nil), v1alpha1.MaxSecretBytes
	for _, f := range c.Files {
		contents, bad := c.contents(f, objects, decrypt)
		// once, for the file that is too much
		if left -= len(contents); len(bad) == 0 && left < 0 && left+len(contents) >= 0 {
			bad = append(bad, v1alpha1.SecretProblem{
				Path: f.Path, Reason: v1alpha1.SecretTooLarge,
				Message: fmt.Sprintf("file %s: the resolved files of a config have more than %d bytes: make the "+
					"values smaller", f.Path, v1alpha1.MaxSecretBytes),
			})
		}
		problems = append(problems, bad...)
		files = append(files, v1alpha1.SecretFile{Path: f.Path, Contents: contents})
	}
	return files, problems
}

func (c Config) contents(f machineconfig.SecretFile, objects Objects, decrypt Decrypt) ([]byte,
	[]v1alpha1.SecretProblem,
) {
	if f.Content.Format != "" {
		plain, err := decrypt(f.Content.Format, f.Content.Body)
		if err == nil {
			return plain, nil
		}
		reason := v1alpha1.SecretNotDecrypted
		switch {
		case errors.Is(err, ErrKeyService):
			reason = v1alpha1.SecretKeyService
		case errors.Is(err, ErrNoKey):
			reason = v1alpha1.SecretNoKey
		}
		return nil, []v1alpha1.SecretProblem{{
			Path: f.Path, Reason: reason,
			Message: safetext.Short(fmt.Sprintf("decrypting file %s: %v", f.Path, err), maxMessage),
		}}
	}
	var bad []v1alpha1.SecretProblem
	pool := v1alpha1.RenderedPool(c.Name)
	out, err := f.Content.Expand(func(r machineconfig.SecretReference) ([]byte, error) {
		value, problem := objects.value(r, pool)
		if problem.Reason == "" {
			return value, nil
		}
		problem.Path, problem.Reference = f.Path, r.String()
		bad = append(bad, problem)
		return nil, errors.New(problem.Message)
	})
	if err != nil && len(bad) == 0 {
		bad = append(bad, v1alpha1.SecretProblem{Path: f.Path, Reason: v1alpha1.SecretInvalid, Message: err.Error()})
	}
	return out, bad
}

// objects returns what the files of the config, and of the configs of single nodes, refer to, each once.
func (c Config) objects() []machineconfig.SecretReference {
	var out []machineconfig.SecretReference
	had := map[machineconfig.SecretReference]bool{}
	add := func(c Config) {
		for _, f := range c.Files {
			for _, r := range f.Content.References() {
				if !had[id(r)] {
					had[id(r)] = true
					out = append(out, id(r))
				}
			}
		}
	}
	add(c)
	for _, name := range slices.Sorted(maps.Keys(c.Own)) {
		add(c.Own[name])
	}
	return out
}

// Object is a Secret or ConfigMap that configs may refer to.
type Object struct {
	Pools string
	Data  map[string][]byte
	// the last change, and its field manager
	Changed time.Time
	Manager string
}

// Objects are the objects by their kind and name.
type Objects map[machineconfig.SecretReference]Object

// ID is the key of an object in Objects: a reference without a key.
func ID(kind machineconfig.SecretKind, name string) machineconfig.SecretReference {
	return machineconfig.SecretReference{Kind: kind, Name: name}
}

// id is the key in Objects.
func id(r machineconfig.SecretReference) machineconfig.SecretReference { return ID(r.Kind, r.Name) }

// isFor reports whether nodes of a pool may get the values. Without the annotation, none may.
func (o Object) isFor(pool string) bool {
	for _, p := range strings.Split(o.Pools, ",") {
		if p = strings.TrimSpace(p); p == "*" || p != "" && p == pool {
			return true
		}
	}
	return false
}

// value has a problem without a reason if there is none.
func (o Objects) value(r machineconfig.SecretReference, pool string) ([]byte, v1alpha1.SecretProblem) {
	kind := map[machineconfig.SecretKind]string{
		machineconfig.Secret:    "Secret",
		machineconfig.ConfigMap: "ConfigMap",
	}[r.Kind]
	place := fmt.Sprintf("%s %s/%s", kind, v1alpha1.SecretsNamespace, r.Name)
	object, ok := o[id(r)]
	if !ok {
		return nil, v1alpha1.SecretProblem{
			Reason:  v1alpha1.SecretNotFound,
			Message: fmt.Sprintf("%s does not exist: create it, or correct the reference %s", place, r),
		}
	}
	if !object.isFor(pool) { // first, so that a commit cannot find out which keys the object has
		return nil, v1alpha1.SecretProblem{Reason: v1alpha1.SecretNotForPool, Message: fmt.Sprintf(
			"%s is not for pool %s: kubectl -n %s annotate --overwrite %s %s %s=%s", place, pool,
			v1alpha1.SecretsNamespace, strings.ToLower(kind), r.Name, v1alpha1.SecretPoolsAnnotation,
			object.withPool(pool))}
	}
	value, ok := object.Data[r.Key]
	if !ok {
		return nil, v1alpha1.SecretProblem{
			Reason:  v1alpha1.SecretNotFound,
			Message: fmt.Sprintf("%s has no key %s: add the key, or correct the reference %s", place, r.Key, r),
		}
	}
	return value, v1alpha1.SecretProblem{}
}

// withPool returns the value of the annotation that adds a pool, without those that are no names of pools: it is a part
// of a command that a user may paste into a shell.
func (o Object) withPool(pool string) string {
	var pools []string
	for _, p := range strings.Split(o.Pools, ",") {
		if p = strings.TrimSpace(p); p != "" && len(validation.IsDNS1123Subdomain(p)) == 0 {
			pools = append(pools, p)
		}
	}
	return strings.Join(append(pools, pool), ",")
}
