package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	xhtml "golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/console/view"
)

// checkHTML finds elements and attributes that no template has, links to elsewhere, and ids that two elements have.
func checkHTML(t *testing.T, text string) {
	t.Helper()
	ids := map[string]bool{}
	z := xhtml.NewTokenizer(strings.NewReader(text))
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			return
		case xhtml.CommentToken, xhtml.DoctypeToken:
			t.Errorf("the page has %s", z.Token())
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			tag := z.Token()
			if !slices.Contains(elements, tag.Data) {
				t.Errorf("the page has the element %s", tag)
			}
			for _, a := range tag.Attr {
				local := strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") ||
					tag.Data == "use" && strings.HasPrefix(a.Val, "#i-")
				if !slices.Contains(attributes, a.Key) || (a.Key == "href" || a.Key == "action") && !local {
					t.Errorf("the page has the attribute %s=%q in <%s>", a.Key, a.Val, tag.Data)
				}
				if a.Key == "id" && ids[a.Val] {
					t.Errorf("two elements have the id %q", a.Val)
				}
				ids[a.Val] = ids[a.Val] || a.Key == "id"
			}
		}
	}
}

// detailEvil are texts of an attacker.
var detailEvil = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'><svg onload=alert(1)>`,
	`</pre></article><iframe src=//evil.example>`,
	"\u202etxt.exe\u2066", "a\x1b[31mb", `javascript:alert(1)`, `{{.}}`, `<!--parts-->`, `]]><!--`,
}

// TestHostileContentIsText: names, messages, files and differences of an attacker are text on every page.
func TestHostileContentOfDetailsIsText(t *testing.T) {
	for i, text := range detailEvil {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			w := usual()
			w.Sources[0].Status.History[0].Subject, w.Sources[0].Status.History[0].Author = text, text
			w.Nodes[0].Annotations[v1alpha1.ReasonAnnotation] = text
			w.Nodes[0].Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDegraded
			w.Nodes[0].Status.Conditions[0].Message = text
			path := "/etc/" + strings.NewReplacer("\x1b", "", "/", "|").Replace(text)
			w.configs[1].Spec.Config.Raw = ignition(map[string]string{path: text + "\n", "/etc/motd": text + "\n" +
				strings.Repeat("y", 1<<20) + "\n"}, "")
			w.configs[1].Annotations[v1alpha1.CommitSubjectAnnotation] = text
			w.configs[3].Annotations[v1alpha1.FileAnnotation] = `[{"file":"<img src=x onerror=alert(1)>"}]`
			for j := range w.others {
				if e, ok := w.others[j].(*corev1.Event); ok {
					e.Message, e.Reason = text, text
				}
			}
			w.rows()
			for _, path := range []string{
				"node worker-00", "node worker-02", "timeline worker", "commit bbbbbbbb",
				"compare " + first + " " + second, "search " + text, "search motd", "search etc", "compare " + text +
					" " + text,
			} {
				got := detailHtml(t, w.session(), path)
				checkHTML(t, got)
				if strings.ContainsAny(got, "\u202e\u2066\x1b") {
					t.Errorf("%s has a hidden character", path)
				}
				if len(got) > 1<<20 {
					t.Errorf("%s has %d bytes", path, len(got))
				}
			}
		})
	}
}

// TestALongLineIsCut: a page shows the begin of a long line, and how much it leaves out.
func TestALongLineIsCut(t *testing.T) {
	w := usual()
	w.configs[1].Spec.Config.Raw = ignition(map[string]string{"/etc/motd": strings.Repeat("é", 500_000) + "\n"}, "")
	got := detailHtml(t, w.session(), "commit bbbbbbbb")
	if !strings.Contains(got, "more bytes in this line)") || len(got) > 100<<10 {
		t.Errorf("the page has %d bytes", len(got))
	}
}

// TestManyLinesAreCut: a page with too many lines says so.
func TestManyLinesAreCut(t *testing.T) {
	w := usual()
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, "line %d\n", i)
	}
	w.configs[1].Spec.Config.Raw = ignition(map[string]string{"/etc/motd": many.String(), "/etc/other": many.String()},
		"")
	got := detailHtml(t, w.session(), "commit bbbbbbbb")
	if !strings.Contains(got, "more lines are not shown") || !strings.Contains(got, "more changes are not shown") ||
		len(got) > 1<<20 {
		t.Errorf("the page has %d bytes", len(got))
	}
}

func forbid[T client.Object, L client.ObjectList](resource string) interceptor.Funcs {
	refused := func(name string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("no right"))
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption,
		) error {
			if _, is := o.(T); is {
				return refused(key.Name)
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			if _, is := l.(L); is {
				return refused("")
			}
			return c.List(ctx, l, options...)
		},
	}
}

// TestAMissingRightHidesOneThing: the page names the missing right, and shows everything else.
func TestAMissingRightHidesOneThing(t *testing.T) {
	configs := forbid[*mcfgv1.MachineConfig, *mcfgv1.MachineConfigList]("machineconfigs")
	for name, c := range map[string]struct {
		hooks      interceptor.Funcs
		path       string
		says, also string
	}{
		"a node without configs":     {configs, "node worker-02", "you may not read MachineConfigs", "DriftDetected"},
		"a commit without configs":   {configs, "commit bbbbbbbb", "ClusterRole bunsen-config-viewer grants that right", "worker-00"},
		"a comparison without them":  {configs, "compare " + first + " " + second, "you may not read MachineConfigs", "compare-to"},
		"a search without configs":   {configs, "search ada", "you may not read MachineConfigs", "chrony: use the site"},
		"a node without events":      {forbid[*corev1.Event, *corev1.EventList]("events"), "node worker-02", "you may not list events", "pools/worker/chrony.bu"},
		"a node without its reports": {forbid[*mcfgv1.MachineConfigNode, *mcfgv1.MachineConfigNodeList]("machineconfignodes"), "node worker-01", "you may not read MachineConfigNodes", "KubeletReady"},
		"a timeline without events":  {forbid[*corev1.Event, *corev1.EventList]("events"), "timeline worker", "you may not list events", "2 not begun"},
		"a timeline without reports": {forbid[*mcfgv1.MachineConfigNode, *mcfgv1.MachineConfigNodeList]("machineconfignodes"), "timeline worker", "you may not read MachineConfigNodes", "worker-00"},
		"a commit without reports":   {forbid[*mcfgv1.MachineConfigNode, *mcfgv1.MachineConfigNodeList]("machineconfignodes"), "commit bbbbbbbb", "how many nodes rebooted", "chrony.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			w := usual()
			w.hooks = c.hooks
			got := detailHtml(t, w.session(), c.path)
			for _, want := range []string{c.says, c.also} {
				if !strings.Contains(got, want) {
					t.Errorf("the page does not say %q:\n%s", want, got)
				}
			}
		})
	}
}

// TestWhatDoesNotExist: a page about nothing is an error that says what lists the others.
func TestWhatDoesNotExist(t *testing.T) {
	s := usual().session()
	_, node := s.Node(t.Context(), "worker-77", noon)
	_, pool := s.Commit(t.Context(), "gpu", commitB, noon)
	_, commit := s.Commit(t.Context(), "worker", "cccccccc", noon)
	for want, err := range map[string]error{
		"bunsen get nodes": node, "bunsen get pools": pool,
		"bunsen history pool/worker": commit,
	} {
		var none *view.NotFoundError
		if !errors.As(err, &none) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestAConfigIsReadOnce: pages of a minute share their reads, and a later page reads again.
func TestAConfigIsReadOnce(t *testing.T) {
	w := usual()
	s := w.session()
	at := noon
	make := func() {
		if _, err := s.Commit(t.Context(), "worker", commitB, at); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Search(t.Context(), "chrony", at); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Node(t.Context(), "worker-00", at); err != nil {
			t.Fatal(err)
		}
	}
	key := "*v1.MachineConfig " + second
	make()
	make()
	if w.reads[key] != 1 {
		t.Errorf("the config was read %d times", w.reads[key])
	}
	at = at.Add(2 * time.Minute)
	if make(); w.reads[key] != 2 {
		t.Errorf("after two minutes it was read %d times", w.reads[key])
	}
}

// TestARightThatIsTakenAway: a minute after a user lost the right to read configs, pages show no contents of the cache.
func TestARightThatIsTakenAway(t *testing.T) {
	w := usual()
	refuse := false
	get := forbid[*mcfgv1.MachineConfig, *mcfgv1.MachineConfigList]("machineconfigs").Get
	w.hooks.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
		options ...client.GetOption,
	) error {
		if refuse {
			return get(ctx, c, key, o, options...)
		}
		return c.Get(ctx, key, o, options...)
	}
	s := w.session()
	for _, path := range []string{"commit " + commitB, "node worker-02", "search chrony.conf", "compare " + first +
		" " + second} {
		if !strings.Contains(detailHtml(t, s, path), "chrony.conf") {
			t.Errorf("%s does not show the file", path)
		}
	}
	refuse = true
	later := noon.Add(61 * time.Second)
	c, err := s.Commit(t.Context(), "worker", commitB, later)
	if err != nil || c.Review != nil {
		t.Errorf("the commit shows a review (%v)", err)
	}
	n, err := s.Node(t.Context(), "worker-02", later)
	if err != nil || n.Contents != nil {
		t.Errorf("the node shows contents (%v)", err)
	}
	f, err := s.Search(t.Context(), "chrony.conf", later)
	if err != nil || len(f.Items) > 0 {
		t.Errorf("the search shows items (%v)", err)
	}
}
