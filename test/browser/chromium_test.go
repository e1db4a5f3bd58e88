package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a test waits for one thing on a page. On an idle machine most take less than a second.
const patience = 4 * time.Minute

// chromium is one running browser with a new profile.
type chromium struct{ ctx context.Context }

// startChromium starts Chromium. The test fails if there is none.
func startChromium(t *testing.T, dir string, flags ...chromedp.ExecAllocatorOption) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("no Chromium to test with: run make setup: %v", err)
	}
	options := append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.Env("HOME=" + dir),
		chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.WindowSize(1280, 900),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-background-timer-throttling", true),
	}, flags...)
	for _, flag := range []string{
		"disable-quic", "disable-background-networking", "disable-component-update",
		"disable-sync", "disable-extensions", "disable-dev-shm-usage", "disable-breakpad",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses its sandbox to root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return &chromium{ctx}
}

// tab is a tab of the browser. It records what its pages request, run and report.
type tab struct {
	t   *testing.T
	ctx context.Context
	// origin is the only one that its pages may use.
	origin string

	mu       sync.Mutex
	foreign  []string
	problems []string
	bytes    map[network.RequestID]received
}

// received is an answer to a request of the page.
type received struct {
	url   string
	kind  network.ResourceType
	bytes float64
}

// open opens a tab for pages of one origin. When the test ends, it checks that the pages requested nothing else, ran
// nothing that failed, and violated no policy.
func (c *chromium) open(t *testing.T, origin string) *tab {
	t.Helper()
	return c.tab(t, origin)
}

// openAlone opens a tab that shares no cookies with others.
func (c *chromium) openAlone(t *testing.T, origin string) *tab {
	t.Helper()
	return c.tab(t, origin, chromedp.WithNewBrowserContext())
}

func (c *chromium) tab(t *testing.T, origin string, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(c.ctx, options...)
	b := &tab{t: t, ctx: ctx, origin: origin, bytes: map[network.RequestID]received{}}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	t.Cleanup(func() {
		b.t = t
		if t.Failed() {
			b.describe()
		}
		end()
		b.check()
	})
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	call(b, cdplog.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: onNewDocument})
	b.resize(1280, 900)
	return b
}

// onNewDocument counts documents that load, and reports violations of the content security policy.
const onNewDocument = `
addEventListener("securitypolicyviolation", (e) => console.error("policy violated: " + e.violatedDirective + " " + e.blockedURI));
`

// call runs a command of the browser's protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatalf("%v: %v", command, err)
	}
	return result
}

// hear records the events of the tab. It runs no commands.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.bytes[e.RequestID] = received{url: e.Request.URL, kind: e.Type}
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme+"://"+u.Host != b.origin && u.Scheme != "data" &&
			u.Scheme != "about" {
			b.foreign = append(b.foreign, e.Request.URL)
		}
	case *network.EventLoadingFinished:
		r := b.bytes[e.RequestID]
		r.bytes = e.EncodedDataLength
		b.bytes[e.RequestID] = r
	case *network.EventWebSocketCreated:
		b.foreign = append(b.foreign, e.URL)
	case *page.EventJavascriptDialogOpening:
		b.problems = append(b.problems, "a dialog opened: "+e.Message)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, "a script failed: "+e.ExceptionDetails.Text+" "+
			e.ExceptionDetails.Exception.Description)
	case *runtime.EventConsoleAPICalled:
		// htmx logs lost streams
		if text := texts(e.Args); (e.Type == "error" || e.Type == "warning") && !strings.Contains(text,
			"[object Event]") {
			b.problems = append(b.problems, "console: "+text)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Source != "network" { // a status that is not 200, and lost connections
			b.problems = append(b.problems, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
		}
	}
}

func texts(args []*runtime.RemoteObject) string {
	var out []string
	for _, a := range args {
		out = append(out, string(a.Value)+a.Description)
	}
	return strings.Join(out, " ")
}

// check fails the test if a page requested another origin, or reported a problem.
func (b *tab) check() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.foreign {
		b.t.Errorf("a page requested %s", u)
	}
	for _, p := range b.problems {
		b.t.Errorf("a page reported: %s", p)
	}
}

// describe prints what the tab shows.
func (b *tab) describe() {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx,
		chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText.slice(0, 4000)`))
	b.t.Logf("--- the page ---\n%s %v", text, err)
}

// forgive removes expected problems.
func (b *tab) forgive(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = slices.DeleteFunc(b.problems, func(p string) bool { return strings.Contains(p, part) })
}

// expectForeign allows requests to another origin.
func (b *tab) expectForeign(origin string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.foreign = slices.DeleteFunc(b.foreign, func(u string) bool { return strings.HasPrefix(u, origin+"/") })
}

// visit opens a path of the origin.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do("opening "+path, chromedp.Navigate(b.origin+path))
	b.until(`document.readyState === "complete"`) // Navigate can take the late end of the page before for this one's.
}

// do runs steps.
func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// resize sets the size of the window. One of 360 pixels is that of a telephone.
func (b *tab) resize(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height,
		DeviceScaleFactor: 1, Mobile: width < 500,
	})
}

// media sets the medium, screen or print, and the scheme of colours, light or dark.
func (b *tab) media(medium, scheme string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: medium,
		Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		},
	})
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("evaluating %s: %v", shortened(expression), err)
	}
	return value
}

// until waits until an expression in the page is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	if err := poll(patience, func() (bool, error) {
		return chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
	}); err != nil {
		b.t.Fatalf("waiting until %s: %v", shortened(expression), err)
	}
}

// shows waits until an element shows a text.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(
		`Array.from(document.querySelectorAll(%q)).some((e) => e.checkVisibility() && e.innerText.includes(%q))`,
		selector, text))
}

func shortened(text string) string {
	if len(text) > 300 {
		return text[:300] + "…"
	}
	return text
}

// signedIn opens a path in a tab in which the session of `bunsen ui` works.
func (w *world) signedIn(t *testing.T, path string) *tab {
	t.Helper()
	b := w.chromium.open(t, w.origin)
	b.visit(path)
	return b
}
