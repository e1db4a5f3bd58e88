package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// hush is a value that no problem, revision or change contains.
const hush = "hush-5f2b"

var key = bytes.Repeat([]byte{7}, KeySize)

func rendered(t *testing.T, name string, files ...string) Config {
	t.Helper()
	var c ign.Config
	c.Ignition.Version = "3.5.0"
	for i := 0; i < len(files); i += 2 {
		f := ign.File{}
		f.Path, f.Contents.Source = files[i], &files[i+1]
		c.Storage.Files = append(c.Storage.Files, f)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out, has := Read(&mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}},
	})
	if !has {
		t.Fatalf("%s has no unresolved file", name)
	}
	return out
}

// decrypt is a Decrypt for tests: a file is its own plain text, unless it says which error it causes.
func decrypt(_ string, body []byte) ([]byte, error) {
	switch string(body) {
	case "other key":
		return nil, fmt.Errorf("%w: it is for age1other", ErrNoKey)
	case "key service":
		return nil, fmt.Errorf("%w: it does not answer", ErrKeyService)
	case "many keys":
		return nil, fmt.Errorf("%w: %s", ErrNoKey, strings.Repeat("age1other, ", 1e5))
	case "damaged":
		return nil, errors.New("its MAC does not match")
	}
	return body, nil
}

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	objects = Objects{
		ID(machineconfig.Secret, "registry"): {
			Pools: "worker, infra", Data: map[string][]byte{"pull": []byte(hush)},
			Changed: noon, Manager: "kubectl",
		},
		ID(machineconfig.ConfigMap, "site"): {
			Pools: "*", Data: map[string][]byte{"ntp": []byte("ntp1")},
			Changed: noon.Add(time.Hour), Manager: "flux",
		},
		ID(machineconfig.Secret, "hostile"): {
			Pools: "infra,x;touch /tmp/x,$(id)",
			Data:  map[string][]byte{"x": []byte(hush)},
		},
		ID(machineconfig.Secret, "unlabeled"): {Data: map[string][]byte{"pull": []byte(hush)}},
		ID(machineconfig.Secret, "big"): {
			Pools: "*",
			Data:  map[string][]byte{"x": bytes.Repeat([]byte("x"), v1alpha1.MaxSecretBytes)},
		},
	}
)

// TestWhatCannotBeResolved has a problem in each row. No problem contains a value.
func TestWhatCannotBeResolved(t *testing.T) {
	for because, c := range map[string]struct{ name, url, reason, message string }{
		"an object that does not exist":      {"rendered-worker-1", machineconfig.TemplateURL("${secret:nothing/x}"), v1alpha1.SecretNotFound, "Secret bunsen-secrets/nothing does not exist"},
		"a key that does not exist":          {"rendered-worker-1", machineconfig.TemplateURL("${secret:registry/x}"), v1alpha1.SecretNotFound, "has no key x"},
		"another kind":                       {"rendered-worker-1", machineconfig.TemplateURL("${configmap:registry/pull}"), v1alpha1.SecretNotFound, "ConfigMap bunsen-secrets/registry does not exist"},
		"an object for other pools":          {"rendered-master-1", machineconfig.TemplateURL("${secret:registry/pull}"), v1alpha1.SecretNotForPool, "annotate --overwrite secret registry bunsen.dev/pools=worker,infra,master"},
		"an object for no pool":              {"rendered-worker-1", machineconfig.TemplateURL("${secret:unlabeled/pull}"), v1alpha1.SecretNotForPool, "bunsen.dev/pools=worker"},
		"a list of pools with shell code":    {"rendered-worker-1", machineconfig.TemplateURL("${secret:hostile/x}"), v1alpha1.SecretNotForPool, "hostile bunsen.dev/pools=infra,worker"},
		"an unknown key of a foreign object": {"rendered-master-1", machineconfig.TemplateURL("${secret:registry/x}"), v1alpha1.SecretNotForPool, "is not for pool master"},
		"a file for another key":             {"rendered-worker-1", machineconfig.SOPSURL("yaml", []byte("other key")), v1alpha1.SecretNoKey, "age1other"},
		"a key service that is away":         {"rendered-worker-1", machineconfig.SOPSURL("yaml", []byte("key service")), v1alpha1.SecretKeyService, "asked again later: it does not answer"},
		"a file for very many keys":          {"rendered-worker-1", machineconfig.SOPSURL("yaml", []byte("many keys")), v1alpha1.SecretNoKey, "age1other"},
		"a damaged file":                     {"rendered-worker-1", machineconfig.SOPSURL("yaml", []byte("damaged")), v1alpha1.SecretNotDecrypted, "MAC"},
		"too much":                           {"rendered-worker-1", machineconfig.TemplateURL("${secret:big/x}!"), v1alpha1.SecretTooLarge, "more than"},
		"an unknown media type":              {"rendered-worker-1", "data:application/vnd.bunsen.x,", v1alpha1.SecretInvalid, "media type"},
	} {
		config := rendered(t, c.name, "/etc/a", c.url, "/etc/b", machineconfig.TemplateURL("${configmap:site/ntp}"))
		entry := Next(nil, []Config{config}, Source{Objects: objects, Decrypt: decrypt, Key: key})[c.name]
		problems := entry.Published.Problems
		if len(problems) != 1 || problems[0].Reason != c.reason || !strings.Contains(problems[0].Message, c.message) {
			t.Errorf("%s: %+v", because, problems)
		}
		if entry.Files != nil || entry.Published.Revision != "" {
			t.Errorf("%s: it has contents or a revision", because)
		}
		if text, _ := json.Marshal(entry.Published); strings.Contains(string(text), hush) || len(text) > 5000 {
			t.Errorf("%s: %s", because, text)
		}
	}
}

// TestAKeyServiceThatIsAwayChangesNothing: the values in force stay, and a server that was restarted publishes the
// revision before.
func TestAKeyServiceThatIsAwayChangesNothing(t *testing.T) {
	config := rendered(t, "rendered-worker-1", "/etc/a", machineconfig.SOPSURL("binary", []byte(hush)))
	source := Source{Decrypt: decrypt, Key: key}
	good := Next(nil, []Config{config}, source)
	source.Published = map[string]v1alpha1.SecretsRevision{config.Name: good[config.Name].Published}
	source.Decrypt = func(string, []byte) ([]byte, error) { return nil, ErrKeyService }
	for server, have := range map[string]State{"running": good, "restarted": nil} {
		entry := Next(have, []Config{config}, source)[config.Name]
		if entry.Published.Revision != good[config.Name].Published.Revision || len(entry.Published.Problems) != 1 ||
			entry.Published.Problems[0].Reason != v1alpha1.SecretKeyService ||
			(entry.Files != nil) != (server == "running") {
			t.Errorf("%s server: %+v", server, entry)
		}
	}
}

// TestResolvedFiles has a reference, a template and an encrypted file.
func TestResolvedFiles(t *testing.T) {
	config := rendered(t, "rendered-worker-1", "/etc/a", machineconfig.TemplateURL("${secret:registry/pull}"), "/etc/b",
		machineconfig.TemplateURL("server ${configmap:site/ntp}\n"), "/etc/c", machineconfig.SOPSURL("binary", []byte("c")))
	entry := Next(nil, []Config{config}, Source{Objects: objects, Decrypt: decrypt, Key: key})["rendered-worker-1"]
	var got []string
	for _, f := range entry.Files {
		got = append(got, f.Path+"="+string(f.Contents))
	}
	if want := "[/etc/a=" + hush + " /etc/b=server ntp1\n /etc/c=c]"; fmt.Sprint(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c := entry.Published.Changes; len(c) != 2 || c[0].Object != "secret:registry" || c[0].Manager != "kubectl" ||
		c[1].Object != "configmap:site" || !c[1].Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("changes %+v", c)
	}
	if text, _ := json.Marshal(entry.Published); strings.Contains(string(text), hush) ||
		strings.Contains(string(text), "ntp1") {
		t.Errorf("published: %s", text)
	}
}

// TestRevisionsFollowContents compares revisions: equal for equal contents, and different for another value, key or
// config.
func TestRevisionsFollowContents(t *testing.T) {
	files := []string{"/etc/a", machineconfig.TemplateURL("${secret:registry/pull}")}
	of := func(name string, o Objects, key []byte) string {
		return Next(nil, []Config{rendered(t, name, files...)}, Source{
			Objects: o, Decrypt: decrypt,
			Key: key,
		})[name].Published.Revision
	}
	with := func(value string) Objects {
		return Objects{ID(machineconfig.Secret, "registry"): {Pools: "*", Data: map[string][]byte{
			"pull":  []byte(value),
			"other": []byte(value + "x"),
		}}}
	}
	first := of("rendered-worker-1", with("a"), key)
	if again := of("rendered-worker-1", with("a"), key); first == "" || again != first {
		t.Errorf("the same contents have %q and %q", first, again)
	}
	for because, revision := range map[string]string{
		"another value":  of("rendered-worker-1", with("b"), key),
		"another key":    of("rendered-worker-1", with("a"), bytes.Repeat([]byte{8}, KeySize)),
		"another config": of("rendered-infra-1", with("a"), key),
	} {
		if revision == first {
			t.Errorf("%s has the same revision", because)
		}
	}
}

// TestTheLastGoodContentsStay has each way in which an object can become invalid, with a server that knows the contents
// and one that was restarted.
func TestTheLastGoodContentsStay(t *testing.T) {
	config := rendered(t, "rendered-worker-1", "/etc/a", machineconfig.TemplateURL("${secret:registry/pull}"))
	source := Source{Objects: objects, Decrypt: decrypt, Key: key}
	good := Next(nil, []Config{config}, source)
	published := map[string]v1alpha1.SecretsRevision{config.Name: good[config.Name].Published}
	for because, c := range map[string]struct {
		objects Objects
		serves  bool
	}{
		"the object is gone":     {Objects{}, true},
		"its key is gone":        {Objects{ID(machineconfig.Secret, "registry"): {Pools: "worker"}}, true},
		"the pool may no longer": {Objects{ID(machineconfig.Secret, "registry"): {Pools: "infra", Data: map[string][]byte{"pull": []byte(hush)}}}, false},
	} {
		source.Objects, source.Published = c.objects, published
		for server, have := range map[string]State{"running": good, "restarted": nil} {
			entry := Next(have, []Config{config}, source)[config.Name]
			if entry.Published.Revision != good[config.Name].Published.Revision || len(entry.Published.Problems) != 1 {
				t.Errorf("%s, %s server: %+v", because, server, entry.Published)
			}
			if serves := c.serves && server == "running"; (entry.Files != nil) != serves {
				t.Errorf("%s, %s server: serves %t, want %t", because, server, !serves, serves)
			}
		}
	}
	if left := Next(good, nil, source); len(left) != 0 {
		t.Errorf("a config to which no pool refers has %+v", left)
	}
}

// TestAConfigThatPanicsHarmsItselfOnly: a mistake in a library is the problem of the config that has the file, with
// what was in force before.
func TestAConfigThatPanicsHarmsItselfOnly(t *testing.T) {
	file := machineconfig.SOPSURL("yaml", []byte("password: "+hush))
	hostile, other := rendered(t, "rendered-infra-1", "/etc/a", file),
		rendered(t, "rendered-worker-1", "/etc/a", machineconfig.TemplateURL("${secret:registry/pull}"))
	source := Source{Objects: objects, Decrypt: decrypt, Key: key}
	good := Next(nil, []Config{hostile}, source)
	source.Decrypt = func(string, []byte) ([]byte, error) { panic(hush) }
	next := Next(good, []Config{hostile, other}, source)
	if is := next[other.Name]; len(is.Published.Problems) > 0 || string(is.Files[0].Contents) != hush {
		t.Errorf("the other config has %+v", is)
	}
	is := next[hostile.Name]
	if len(is.Published.Problems) != 1 || len(is.Files) != 1 ||
		is.Published.Revision != good[hostile.Name].Published.Revision {
		t.Fatalf("the config has %+v", is)
	}
	if text := is.Published.Problems[0].Message; strings.Contains(text, hush) || !strings.Contains(text, "mistake") {
		t.Errorf("the problem is %s", text)
	}
}
