package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lab/cluster"
)

var (
	livesFlag = flag.Int("lives", 4, "random updates of nodes while a person interferes")
	livesSeed = flag.Uint64("lives-seed", 0, "seed of the updates and of the person; 0 takes another one each time")
)

const daemon = "machine-config-daemon"

// patience is how long one update may take, on a machine that has other things to do.
const patience = 5 * time.Minute

// lives are random updates of some nodes. Each round is one commit. It changes the config of one node, of each node or
// of the pool, and on each node a person may interfere.
type lives struct {
	t     *testing.T
	c     *cluster.Cluster
	repo  *cluster.Repository
	watch *watcher
	nodes []*life
	// pool is the config of all nodes, and past those that it had.
	pool config
	past []config
	// played counts what people did, by kind, and chosen what they were to do.
	played, chosen map[string]int
	// green counts the updates that ended as they should.
	green int
	// configs by id, and the ids of rendered configs by name.
	mu       sync.Mutex
	configs  map[int]config
	rendered map[string][2]int
}

// life is one node.
type life struct {
	*lives
	host *lab.Host
	now  config
	past []config
	// before the first config.
	before hostState

	mu sync.Mutex
	// hands are paths and units that a person has changed, with the time; undone are those that she changed back.
	hands, undone map[string]time.Time
	// uncordoned is when a person last did that: when she began, and when it was done.
	uncordoned [2]time.Time
	// ends are those of the host's boots, in their order, and boots the IDs of these.
	ends  []end
	boots map[int]string
}

// end is why a boot ended: the power was cut, a person asked for a reboot, or the daemon did with these words.
type end struct {
	cut  bool
	said string
}

func (e end) String() string {
	switch {
	case e.cut:
		return "power cut"
	case e.said == "":
		return "reboot by a person"
	}
	return "reboot for " + e.said
}

// playLives plays lives on nodes.
func playLives(t *testing.T, c *cluster.Cluster, repo *cluster.Repository, hosts []*lab.Host) {
	t.Helper()
	readyForLives(c, repo)
	seed := *livesSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	t.Logf("-lives=%d -lives-seed=%d", *livesFlag, seed)
	l := &lives{
		t: t, c: c, repo: repo, watch: watch(t, c), configs: map[int]config{}, rendered: map[string][2]int{},
		pool: config{pool: true}, played: map[string]int{}, chosen: map[string]int{},
	}
	asService(t, hosts[len(hosts)-1])
	for _, h := range hosts {
		h.Sh("mkdir -p /var/log/journal /etc/lives-linked && journalctl --flush")
		h.Sh("echo before > " + linked + " && ln " + linked + " " + second)
		h.Sh("mkdir -p /etc/lives-real && ln -s /etc/lives-real " + alias)
		n := &life{
			lives: l, host: h, hands: map[string]time.Time{}, undone: map[string]time.Time{},
			ends:  make([]end, len(h.Cuts())), // of boots before the lives
			boots: map[int]string{},
		}
		var err error
		if n.before, err = look(h, n.exec); err != nil {
			t.Fatal(err)
		}
		l.nodes = append(l.nodes, n)
	}
	l.c.Apply(ownPods(hosts))
	r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // lives
	ctx, stop := context.WithCancel(t.Context())
	var guards sync.WaitGroup
	for _, n := range l.nodes {
		guards.Go(func() { n.guardDone(ctx) })
		guards.Go(func() { n.guardBoots(ctx) })
	}
	defer func() { stop(); guards.Wait() }()
	for played, round := 0, 1; played < *livesFlag; round++ {
		played += l.round(r, round)
	}
	l.tellPlayed()
	for _, name := range l.watch.deleted {
		t.Errorf("the pod %s was deleted without an eviction", name)
	}
	l.nodes[len(l.nodes)-1].host.Do("systemctl", "disable", "--now", daemon)
}

// asService installs the daemon as a service of a host, where its pod stands by.
func asService(t *testing.T, h *lab.Host) {
	t.Helper()
	unit, errUnit := os.ReadFile(filepath.Join("..", "..", "..", "config", "daemon", "systemd", daemon+".service"))
	binary, errBinary := os.ReadFile(filepath.Join(os.Getenv("BUNSEN_BIN"), daemon))
	units := filepath.Join(h.Root, "usr/lib/systemd/system")
	settings := "[Service]\nExecStart=\nExecStart=/usr/local/bin/" + daemon + " start --health-settle 1s\n" +
		"RestartSec=1\n"
	if err := errors.Join(errUnit, errBinary,
		os.WriteFile(filepath.Join(h.Root, "usr/local/bin", daemon), binary, 0o755),
		os.WriteFile(filepath.Join(units, daemon+".service"), unit, 0o644),
		os.MkdirAll(filepath.Join(units, daemon+".service.d"), 0o755),
		os.WriteFile(filepath.Join(units, daemon+".service.d", "10-settle.conf"), []byte(settings), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	h.Sh("systemctl daemon-reload && systemctl enable --now " + daemon)
}

// ownPods are pods that run on one host alone, so that each drain has one to move.
func ownPods(hosts []*lab.Host) string {
	var all strings.Builder
	for _, h := range hosts {
		own := strings.NewReplacer("name: web", "name: own-"+h.Name, "app: web", "app: own-"+h.Name,
			"replicas: 2", "replicas: 1", `web: ""`, "kubernetes.io/hostname: "+h.Name)
		deployment, _, _ := strings.Cut(own.Replace(pods), "---\n")
		all.WriteString(deployment + "---\n")
	}
	return all.String()
}

// change returns the next config, mostly a new one and sometimes an earlier one.
func (l *lives) change(r *rand.Rand, c config, past []config) config {
	if len(past) > 1 && r.IntN(4) == 0 {
		if earlier := past[r.IntN(len(past)-1)]; earlier.id != c.id {
			return earlier
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := c.next(r, len(l.configs)+1)
	for {
		if _, what := n.costFrom(c); len(what) > 0 {
			break
		}
		n = c.next(r, n.id)
	}
	l.configs[n.id] = n
	return n
}

// round plays one commit, and returns how many nodes it changed.
func (l *lives) round(r *rand.Rand, number int) int {
	files, acts := map[string]string{}, map[*life]*act{}
	oldPool, old := l.pool, map[*life]config{}
	scope := r.IntN(len(l.nodes) + 3) // one node, the pool, or each node
	var changed []*life
	if scope == len(l.nodes) {
		l.pool = l.change(r, l.pool, l.past)
		l.past = append(l.past, l.pool)
		files["pools/worker/60-lives.ign"] = l.pool.ignition()
	}
	for i, n := range l.nodes {
		old[n] = n.now
		if scope == i || scope > len(l.nodes) {
			n.now = l.change(r, n.now, n.past)
			n.past = append(n.past, n.now)
			files["pools/worker/nodes/"+n.host.Name+"/50-lives.ign"] = n.now.ignition()
		}
		if n.now.id != old[n].id || l.pool.id != oldPool.id {
			changed = append(changed, n)
			acts[n] = l.choose(r, old[n], n.now)
		}
	}
	begun := time.Now()
	ended := map[*life]int{}
	for _, n := range changed {
		ended[n] = len(n.host.Cuts())
		a := acts[n]
		if a != nil && a.when == before {
			l.t.Logf("round %d, %s: now %s", number, n.host.Name, a)
			if err := n.do(l.t.Context(), a); err != nil {
				l.t.Fatalf("round %d: %s, %s: %v", number, n.host.Name, a, err)
			}
		}
	}
	pushed := time.Now()
	l.push(fmt.Sprintf("Round %d", number), files)
	l.reconcile()
	var wg sync.WaitGroup
	for _, n := range changed {
		wg.Go(func() {
			most, what := n.now.costFrom(old[n])
			poolMost, poolWhat := l.pool.costFrom(oldPool)
			most, what = max(most, poolMost), append(what, poolWhat...)
			u := update{
				number: number, life: n, act: acts[n], cost: most, begun: begun, pushed: pushed, ended: ended[n],
			}
			err := u.play()
			story := fmt.Sprintf("round %d, %s: config %d→%d, pool %d→%d, cost %d, changes %v; %s; boots end by %v; "+
				"%.0f s", number, n.host.Name, old[n].id, n.now.id, oldPool.id, l.pool.id, most, what, acts[n],
				n.endsSince(ended[n]), time.Since(begun).Seconds())
			if err != nil {
				l.t.Errorf("FAILED %s\n%v\n%s\n%s", story, err, tellSights(l.watch.nodeSince(n.host.Name, begun)),
					n.rollbacks())
				return
			}
			l.mu.Lock()
			l.green++
			l.t.Logf("%d green: %s", l.green, story)
			l.mu.Unlock()
		})
	}
	wg.Wait()
	return len(changed)
}

// tellPlayed logs how often people did what. In a hundred lives, they do everything.
func (l *lives) tellPlayed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		all = append(all, fmt.Sprintf("%s %d", kind, l.played[kind]))
		if *livesFlag >= 100 && l.played[kind] == 0 {
			l.t.Errorf("nobody did: %s", kind)
		}
	}
	l.t.Logf("%d updates were green; people did: %s", l.green, strings.Join(all, ", "))
}

// push commits files.
func (l *lives) push(subject string, files map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.repo.Push(subject, files)
}

// reconcile lets the source fetch now.
func (l *lives) reconcile() {
	l.c.Kubectl("annotate", "--overwrite", "gitsource/config",
		"bunsen.dev/reconcile="+time.Now().Format(time.RFC3339Nano))
}

// update is the change of one node.
type update struct {
	*life
	number int
	act    *act
	cost   cost
	// begun is before what a person did before the commit, and pushed that of the commit.
	begun, pushed time.Time
	// ended counts the boots that had ended when it begun.
	ended int
}

// play waits for the update, with what the person does, and checks it.
func (u *update) play() error {
	ctx, cancel := context.WithTimeoutCause(u.t.Context(), patience, errors.New("it took too long"))
	defer cancel()
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	came, undone := false, make(chan error, 1)
	updated, stop := context.WithCancel(ctx)
	switch a := u.act; {
	case a == nil:
		undone <- nil
	case a.when == before:
		came = true
		if a.obstructs || a.kind == "cordon" {
			add(u.obstructed(ctx))
		}
		undone <- u.undo(a)
	case a.when == after:
		undone <- nil
	default:
		go func() {
			if came = u.awaitMoment(updated, a); !came {
				undone <- nil
				return
			}
			u.t.Logf("round %d, %s: now %s", u.number, u.host.Name, a)
			err := u.do(ctx, a)
			pass(ctx, a.lasts)
			undone <- errors.Join(err, u.undo(a))
		}()
	}
	_, err := u.reached(ctx)
	stop()
	add(<-undone)
	if came || err != nil {
		// What she did may have ended the state Done after it was reached.
		_, err = u.reached(ctx)
	}
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	add(u.checkBoots(ctx, came))
	add(u.checkCordons())
	if a := u.act; a != nil && a.when == after {
		u.t.Logf("round %d, %s: now %s", u.number, u.host.Name, a)
		add(u.do(ctx, a))
		if a.drifts() {
			_, err := u.watch.await(ctx, u.host.Name, func(s sight) bool {
				return s.state == "Degraded" && strings.Contains(s.reason, a.named())
			})
			if err != nil {
				add(fmt.Errorf("waiting for the report of what a person did: %w", err))
			}
		} else {
			pass(ctx, a.lasts)
		}
		add(u.undo(a))
		_, err := u.reached(ctx)
		add(err)
	}
	return errors.Join(errs...)
}

// pass lets time pass, as a person does.
func pass(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// obstructed waits until the daemon says what is in the way, and checks that the node was not cordoned for it.
func (u *update) obstructed(ctx context.Context) error {
	from, a := time.Now(), u.act
	ctx, cancel := context.WithTimeoutCause(ctx, 90*time.Second, errors.New("it took too long"))
	defer cancel()
	var err error
	if a.kind == "cordon" {
		pass(ctx, a.lasts)
	} else {
		var now sight
		now, err = u.watch.await(ctx, u.host.Name, func(s sight) bool {
			return (s.state == "Degraded" || s.state == "Unreconcilable") && strings.Contains(s.reason, a.named())
		})
		if err != nil {
			return fmt.Errorf("waiting until the node says that %s is in the way: %w", a.at, err)
		}
		u.t.Logf("round %d, %s: %s", u.number, u.host.Name, now.reason)
		pass(ctx, 2*time.Second)
	}
	for _, s := range u.watch.nodeSince(u.host.Name, from) {
		switch {
		case a.kind == "cordon" && s.wantsDrain != "" && strings.HasPrefix(s.wantsDrain, "drain"):
			return errors.New("an update began on a node that a person had cordoned")
		case a.kind != "cordon" && s.unschedulable:
			return fmt.Errorf("the node was cordoned although %s was in the way", a.at)
		}
	}
	return nil
}

// reached waits until the daemon is done with the config of this update, and looks whether it is.
func (u *update) reached(ctx context.Context) (sight, error) {
	want := [2]int{u.now.id, u.pool.id}
	var retried time.Time
	now, err := u.watch.await(ctx, u.host.Name, func(s sight) bool {
		if s.state == "Degraded" && strings.Contains(s.reason, "bunsen retry") && time.Since(s.at) > 5*time.Second &&
			time.Since(retried) > 30*time.Second {
			retried = time.Now()
			u.t.Logf("round %d, %s: bunsen retry, for %s", u.number, u.host.Name, s.reason)
			u.c.Bunsen("retry", "node/"+u.host.Name) //nolint:errcheck // it is logged
		}
		return s.isDone() && !s.unschedulable && u.idsOf(s.current) == want
	})
	if err != nil {
		return now, fmt.Errorf("waiting for the configs %v: %w; the host has\n  %s", want, err,
			strings.Join(u.differs(), "\n  "))
	}
	if lines := u.differs(); len(lines) > 0 {
		if again, _ := u.watch.node(u.host.Name); again == now {
			return now, fmt.Errorf("the daemon says Done, and the host differs:\n  %s", strings.Join(lines, "\n  "))
		}
	}
	return now, nil
}

// differs compares the host with the configs of its node now.
func (n *life) differs() []string {
	is, err := look(n.host, n.exec)
	// A host that has just booted answers a moment later.
	for limit := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(limit); {
		pass(n.t.Context(), time.Second)
		is, err = look(n.host, n.exec)
	}
	if err != nil {
		return []string{err.Error()}
	}
	return differences(wanted(n.before, n.now, n.pool), is)
}

// checkBoots checks that the host booted once if the update needs it, and not at all if not. If the new config failed,
// which only a person's doings may cause, a boot back into the old config follows, and then the next into the new one.
// A power cut, or a person's reboot, may be in the place of any of these.
func (u *update) checkBoots(ctx context.Context, came bool) error {
	for len(u.endsSince(0)) < len(u.host.Cuts()) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for what ended the boots of the host: %w", context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
	want := [2]int{u.now.id, u.pool.id}
	var moves string // f: forth, b: back, ?: whatever it was
	for _, e := range u.endsSince(u.ended) {
		into, forth := strings.CutPrefix(e.said, "machine config ")
		into, _, _ = strings.Cut(into, " ") // who asked for it
		switch {
		case e.cut || e.said == "":
			moves += "?"
		case !forth:
			moves += "b"
		case u.idsOf(into) != want:
			return fmt.Errorf("the host booted for another config: %s", e)
		default:
			moves += "f"
		}
	}
	if strings.Contains(moves, "b") && !came {
		return fmt.Errorf("the host went back to the old config, and nobody gave it a reason to: %v",
			u.endsSince(u.ended))
	}
	if !isWay(moves, u.cost == reboots) {
		return fmt.Errorf("the update needs %d boots; they ended by %v", map[bool]int{true: 1}[u.cost == reboots],
			u.endsSince(u.ended))
	}
	return nil
}

// isWay tells whether the moves can be a way into the new config: forth, and any number of times back and forth again.
func isWay(moves string, boots bool) bool {
	at := map[bool]bool{false: true} // whether it may be in the old config, and in the new one
	for _, m := range moves {
		next := map[bool]bool{}
		for isNew := range at {
			if m == '?' {
				next[isNew] = true
			}
			if boots && (m == '?' || (m == 'f') != isNew) {
				next[!isNew] = true
			}
		}
		at = next
	}
	return at[boots]
}

// endsSince are the ends of the host's boots after so many.
func (n *life) endsSince(ended int) []end {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ends[min(ended, len(n.ends)):])
}

// rollbacks is what the daemon logged about them, for people.
func (n *life) rollbacks() string {
	out, err := n.exec("sh", "-c", "{ cat /var/log/pods/bunsen-system_"+daemon+"-*/*/*.log; journalctl --no-pager "+
		"--unit="+daemon+" --output=cat; } 2>/dev/null | grep -e 'rolled back' -e 'level=WARN' | tail -n 8 | "+
		"cut -c 1-600")
	if err != nil {
		return err.Error()
	}
	return out
}

// checkCordons checks that an update without a drain cordoned nothing.
func (u *update) checkCordons() error {
	if u.cost > free || u.act != nil && u.act.kind == "cordon" {
		return nil
	}
	for _, s := range u.watch.nodeSince(u.host.Name, u.pushed) {
		if s.unschedulable {
			return errors.New("the node was cordoned for an update that needs no drain")
		}
	}
	return nil
}

// idsOf are the configs of a node and its pool in a rendered config.
func (l *lives) idsOf(name string) (ids [2]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ids, known := l.rendered[name]; known || name == "" {
		return ids
	}
	out, err := l.c.Try("get", "machineconfig", name, "-o", "json")
	if err != nil { // It may be unused, and deleted.
		return [2]int{-1, -1}
	}
	var is struct {
		Spec struct {
			Config struct {
				Storage struct {
					Files []struct {
						Path     string
						Contents struct{ Source string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &is); err != nil {
		l.t.Errorf("reading %s: %v", name, err)
		return ids
	}
	for _, f := range is.Spec.Config.Storage.Files {
		if i := slices.Index([]string{nodeMark, poolMark}, f.Path); i >= 0 {
			_, text, _ := strings.Cut(f.Contents.Source, ",")
			text, _ = url.PathUnescape(text)
			ids[i], _ = strconv.Atoi(text)
		}
	}
	l.rendered[name] = ids
	return ids
}

// exec runs a program on the host.
func (n *life) exec(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	return n.host.Exec(ctx, argv...)
}

// touched notes that a person changed a path or a unit of the host, or undid that.
func (n *life) touched(what string, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if is {
		n.hands[what] = time.Now()
		delete(n.undone, what)
		return
	}
	delete(n.hands, what)
	n.undone[what] = time.Now()
}

// guardDone looks at the host again and again while the daemon says Done: the host has the configs of its node then,
// but for what a person has changed a moment ago.
func (n *life) guardDone(ctx context.Context) {
	var last sight
	var lastLook time.Time
	for pause := time.NewTicker(2 * time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		says, _ := n.watch.node(n.host.Name)
		// A look costs the machine a hundred processes.
		if !says.isDone() || says == last && time.Since(lastLook) < 10*time.Second {
			continue
		}
		last, lastLook = says, time.Now()
		ids := n.idsOf(says.current)
		if ids[0] < 0 {
			continue
		}
		began := time.Now()
		is, err := look(n.host, n.exec)
		if again, _ := n.watch.node(n.host.Name); err != nil || again != says {
			continue // It reboots, or an update has begun.
		}
		n.lives.mu.Lock()
		want := wanted(n.before, n.configs[ids[0]], n.configs[ids[1]])
		n.lives.mu.Unlock()
		n.mu.Lock()
		for what, at := range n.hands {
			if began.Sub(at) < noticed {
				delete(want, what)
			}
		}
		for what, at := range n.undone {
			if began.Sub(at) < time.Second {
				delete(want, what)
			}
		}
		n.mu.Unlock()
		if lines := differences(want, is); len(lines) > 0 {
			// Events of the API server come late on a busy machine.
			pass(ctx, 5*time.Second)
			if ctx.Err() != nil || len(n.watch.nodeSince(n.host.Name, began)) > 1 {
				continue
			}
			n.t.Errorf("%s says Done since %s with the configs %v, and differs:\n  %s", n.host.Name,
				says.at.Format(time.TimeOnly), ids, strings.Join(lines, "\n  "))
		}
	}
}

// noticed is how long a daemon may take to notice a manual change: it looks less often where files change often, but at
// least once a minute.
const noticed = 75 * time.Second

// guardBoots notes how each boot of the host ends, and checks that the node was drained when logind accepted a reboot
// of the daemon.
func (n *life) guardBoots(ctx context.Context) {
	var noted sync.WaitGroup
	noted.Go(func() { n.noteBoots(ctx) })
	defer noted.Wait()
	for pause := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		cuts := n.host.Cuts()
		for number := len(n.endsSince(0)); number < len(cuts) && ctx.Err() == nil; number++ {
			e := end{cut: cuts[number]}
			if !e.cut {
				said, accepted, err := n.askedFor(ctx, n.bootID(number))
				e.said = said
				if err == nil && said != "" {
					err = n.checkDrained(accepted)
				}
				if err != nil && ctx.Err() == nil {
					n.t.Errorf("%s rebooted: %v\n%s", n.host.Name, err,
						tellSights(n.watch.nodeSince(n.host.Name, accepted.Add(-time.Minute))))
				}
			}
			n.mu.Lock()
			n.ends = append(n.ends, e)
			n.mu.Unlock()
		}
	}
}

// noteBoots notes the IDs of the host's boots, while each of them runs.
func (n *life) noteBoots(ctx context.Context) {
	for pause := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		number := len(n.host.Cuts())
		if n.bootID(number) != "" {
			continue
		}
		id, err := os.ReadFile(filepath.Join(n.host.Inside(), "proc/sys/kernel/random/boot_id"))
		if err == nil && len(n.host.Cuts()) == number {
			n.mu.Lock()
			n.boots[number] = strings.ReplaceAll(strings.TrimSpace(string(id)), "-", "")
			n.mu.Unlock()
		}
	}
}

// bootID is the ID of a boot, by the number of those that had ended before; "" if it is not known.
func (n *life) bootID(number int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.boots[number]
}

// asked is what logind writes when it reboots the machine, with the words of who asked for it.
var asked = regexp.MustCompile(`^([0-9.]+) .*: System is rebooting(?: \((.*)\))?\.$`)

// askedFor are the words with which somebody asked for the reboot that ended a boot, and when logind accepted it.
func (n *life) askedFor(ctx context.Context, boot string) (said string, accepted time.Time, err error) {
	if boot == "" {
		return "", accepted, errors.New("it is unknown which boot ended")
	}
	for limit := time.Now().Add(patience); ctx.Err() == nil; pass(ctx, time.Second) {
		var out string
		out, err = n.exec("journalctl", "--boot="+boot, "--no-pager", "--output=short-unix",
			"--identifier=systemd-logind", "--grep=rebooting")
		if err != nil {
			if err = fmt.Errorf("it is unknown who asked for it: %w\n%s", err, out); time.Now().After(limit) {
				break
			}
			continue // It has not booted yet, or goes down again.
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		found := asked.FindStringSubmatch(lines[len(lines)-1])
		if found == nil {
			return "", accepted, fmt.Errorf("it is unknown who asked for it: %q", lines[len(lines)-1])
		}
		seconds, err := strconv.ParseFloat(found[1], 64)
		return found[2], time.UnixMicro(int64(seconds * 1e6)), err
	}
	return "", accepted, err
}

// checkDrained checks that the node was drained when logind accepted a reboot.
func (n *life) checkDrained(accepted time.Time) error {
	n.mu.Lock()
	uncordoned := n.uncordoned
	n.mu.Unlock()
	// Between the daemon's last look at its Node and the answer of logind, somebody may uncordon it.
	if accepted.After(uncordoned[0]) && accepted.Sub(uncordoned[1]) < time.Second {
		n.t.Logf("%s was uncordoned between %v and its reboot at %s", n.host.Name, uncordoned, accepted)
		return nil
	}
	then := n.watch.nodeSince(n.host.Name, accepted)
	if len(then) == 0 || !then[0].unschedulable {
		return fmt.Errorf("it was not cordoned at %s", accepted.Format("15:04:05.000"))
	}
	if names := n.watch.podsAt(n.host.Name, accepted); len(names) > 0 {
		return fmt.Errorf("it ran %v", names)
	}
	return nil
}

// TestLives plays lives alone.
func TestLives(t *testing.T) {
	c := cluster.Start(t, "n1", "n2", "n3")
	c.Kubectl("label", "node", "n1", "node-role.kubernetes.io/control-plane=")
	c.Kubectl("label", "node", "n2", "n3", "web=")
	if out, err := c.Bunsen("install", "--images", c.Images()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.Apply(pods)
	repo := c.NewRepository()
	repo.Push("An env", map[string]string{
		"pools/worker/20-env.bu": env, "cluster/machine-configuration.yaml": marks,
	})
	c.Apply("apiVersion: bunsen.dev/v1alpha1\nkind: GitSource\nmetadata: {name: config}\nspec: {url: \"" + repo.URL +
		"\", ref: {branch: main}, interval: 5s}\n")
	playLives(t, c, repo, c.Nodes[1:])
}

// readyForLives gives the items of lives their costs, and lets two nodes update at once. The daemons need not wait long
// to see whether a machine stays healthy.
func readyForLives(c *cluster.Cluster, repo *cluster.Repository) {
	repo.Push("The costs of lives", map[string]string{"cluster/machine-configuration.yaml": policies})
	c.Kubectl("patch", "machineconfigpool", "worker", "--type=merge", "--patch", `{"spec": {"maxUnavailable": 2}}`)
	c.Kubectl("-n", "bunsen-system", "patch", "daemonset", "machine-config-daemon", "--type=json", "--patch",
		`[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--health-settle=1s"},
		{"op": "replace", "path": "/spec/updateStrategy/rollingUpdate/maxUnavailable", "value": "100%"},
		{"op": "replace", "path": "/spec/minReadySeconds", "value": 0}]`)
	c.Kubectl("-n", "bunsen-system", "rollout", "status", "daemonset/machine-config-daemon", "--timeout=2m")
	c.Await("the costs of lives are those of the cluster", func() bool {
		return strings.Contains(c.Kubectl("get", "machineconfiguration.operator.openshift.io", "cluster", "-o",
			"jsonpath={.status.nodeDisruptionPolicyStatus}"), "lives-pool")
	})
	c.Kubectl("wait", "--for=condition=Updated", "mcp/worker", "--timeout=3m")
}
