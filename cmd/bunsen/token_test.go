package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// TestTokenScripts runs testdata/token/*.txtar against a stand-in of an API server that keeps what it is told. `cluster
// FILE [deny "VERB RESOURCE"]…` serves the objects of a YAML file, in which "{-3h}" is the time three hours ago; `kept`
// writes its tokens to the file kept.
func TestTokenScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/token", UpdateScripts: *update, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "cluster": serveStore,
			"kept": keptTokens,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", env.WorkDir+"/kubeconfig")
			return nil
		},
	})
}

// stores are those of the scripts that run.
var stores sync.Map

func serveStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 1 && args[1] != "deny" {
		ts.Fatalf(`usage: cluster FILE [deny "VERB RESOURCE"…]`)
	}
	s := &keeper{objects: map[string]object{}, denied: args[1:]}
	text := regexp.MustCompile(`\{([+-][0-9hms]+)\}`).ReplaceAllStringFunc(ts.ReadFile(args[0]),
		func(span string) string {
			d, err := time.ParseDuration(strings.Trim(span, "{}"))
			ts.Check(err)
			return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000000Z07:00") // as leases have it
		})
	docs := k8syaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		ts.Check(err)
		var o object
		ts.Check(yaml.Unmarshal(doc, &o))
		s.objects[o.path()] = o
	}
	server := httptest.NewServer(s)
	ts.Defer(server.Close)
	stores.Store(ts, s)
	ts.Check(os.WriteFile(ts.MkAbs("kubeconfig"), fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u, user: {}}]
`, server.URL), 0o600))
}

// keptTokens writes id, pool, node, uses and whether it is revoked, but for the ids of tokens that are new.
func keptTokens(ts *testscript.TestScript, _ bool, _ []string) {
	v, _ := stores.Load(ts)
	s, ok := v.(*keeper)
	if !ok {
		ts.Fatalf("there is no cluster")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for path, o := range s.objects {
		if !strings.Contains(path, "/provisioningtokens/") {
			continue
		}
		spec, _ := o["spec"].(map[string]any)
		name := o.meta("name")
		if o.meta("uid") == "new" {
			name = "(new)"
		}
		lines = append(lines, fmt.Sprintf("%s pool=%v node=%v uses=%v revoked=%v hash=%d\n", name, spec["pool"],
			spec["node"], spec["uses"], spec["revoked"], len(fmt.Sprint(spec["hash"]))))
	}
	slices.Sort(lines)
	ts.Check(os.WriteFile(ts.MkAbs("kept"), []byte(strings.Join(lines, "")), 0o600))
}

type object map[string]any

func (o object) meta(field string) string {
	m, _ := o["metadata"].(map[string]any)
	text, _ := m[field].(string)
	return text
}

// path is where an API server has it.
func (o object) path() string {
	version := fmt.Sprint(o["apiVersion"])
	root := "/apis/"
	if !strings.Contains(version, "/") {
		root = "/api/"
	}
	if ns := o.meta("namespace"); ns != "" {
		version += "/namespaces/" + ns
	}
	return root + version + "/" + strings.ToLower(fmt.Sprint(o["kind"])) + "s/" + o.meta("name")
}

// keeper is as much of an API server as tokens and pointers need.
type keeper struct {
	mu      sync.Mutex
	objects map[string]object
	denied  []string
}

// resources that a client discovers, by group and version.
var resources = map[string]string{
	"v1":                                   `{"name":"configmaps","kind":"ConfigMap","namespaced":true}`,
	"bunsen.dev/v1alpha1":                  `{"name":"provisioningtokens","kind":"ProvisioningToken"}`,
	"machineconfiguration.openshift.io/v1": `{"name":"machineconfigpools","kind":"MachineConfigPool"}`,
	"coordination.k8s.io/v1":               `{"name":"leases","kind":"Lease","namespaced":true}`,
}

// discover answers what a client asks before it asks for objects.
func (s *keeper) discover(path string) string {
	var groups []string
	for gv, list := range resources {
		group, version, named := strings.Cut(gv, "/")
		if slices.Contains(s.denied, "know "+group) {
			continue
		}
		if path == "/api/"+gv || path == "/apis/"+gv {
			return fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[%s]}`, gv,
				list)
		}
		if named {
			groups = append(groups, fmt.Sprintf(`{"name":%q,"versions":[{"groupVersion":%q,"version":%q}]}`, group, gv,
				version))
		}
	}
	return map[string]string{
		"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + strings.Join(groups, ",") + `]}`,
	}[path]
}

func (s *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.Path
	if text := s.discover(path); text != "" {
		fmt.Fprint(w, text)
		return
	}
	resource := regexp.MustCompile(`configmaps|provisioningtokens|machineconfigpools|leases`).FindString(path)
	one, there := s.objects[path]
	verb := map[string]string{"POST": "create", "PATCH": "patch", "DELETE": "delete", "GET": "list"}[r.Method]
	if r.Method == "GET" && !strings.HasSuffix(path, "/"+resource) {
		verb = "get"
	}
	var sent object
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil && r.Method != "GET" {
		fail(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	dry := r.URL.Query().Get("dryRun") == "All" || sent["dryRun"] != nil
	switch {
	case slices.Contains(s.denied, verb+" "+resource):
		fail(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("%s is forbidden: User \"ada\" cannot %s resource %q",
			resource, verb, resource))
	case verb == "list":
		s.list(w, r, path)
	case verb == "create":
		m, _ := sent["metadata"].(map[string]any)
		m["uid"], m["creationTimestamp"] = "new", time.Now().UTC().Format(time.RFC3339)
		if !dry {
			s.objects[sent.path()] = sent
		}
		respond(w, sent)
	case !there:
		fail(w, http.StatusNotFound, "NotFound", path+" not found")
	case verb == "patch":
		changed := merge(one, sent)
		if !dry {
			s.objects[path] = changed
		}
		respond(w, changed)
	case verb == "delete" && !dry:
		delete(s.objects, path)
		fallthrough
	default:
		respond(w, one)
	}
}

// list answers with what lies below a path and has the labels that were asked for.
func (s *keeper) list(w http.ResponseWriter, r *http.Request, path string) {
	kind, version, items := "ProvisioningTokenList", "bunsen.dev/v1alpha1", []object{}
	if strings.HasSuffix(path, "/leases") {
		kind, version = "LeaseList", "coordination.k8s.io/v1"
	}
	if strings.HasSuffix(path, "/leases") {
		kind, version = "LeaseList", "coordination.k8s.io/v1"
	}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	label, value, labelled := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[at]
		m, _ := o["metadata"].(map[string]any)
		labels, _ := m["labels"].(map[string]any)
		if strings.HasPrefix(at, path+"/") && (!labelled || labels[label] == value) {
			items = append(items, o)
		}
	}
	respond(w, object{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": items})
}

func merge(into, patch object) object {
	out := maps.Clone(into)
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		if old, ok := out[key].(map[string]any); ok && isMap {
			out[key] = map[string]any(merge(old, inner))
			continue
		}
		out[key] = value
	}
	return out
}

func respond(w http.ResponseWriter, o object) {
	_ = json.NewEncoder(w).Encode(o) // a client that goes away
}

func fail(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	respond(w, object{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
		"message": message,
	})
}
