package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

type blocked struct {
	f *fleet.Fleet
	v *fleet.Pool
	b poolstate.Block
	// the pools that wait for this one
	asked []string
}

// Advice completes the answer for a blocker with the commands against it.
type Advice func(x blocked, a Answer) Answer

// Advices returns what a user does against each cause of poolstate. It is nil for causes that a blocker never has:
// those of single nodes, and those for which Pool has an answer. TestEveryCause says for each which test types its
// commands.
func Advices() map[poolstate.Cause]Advice {
	return map[poolstate.Cause]Advice{
		poolstate.CauseInvalid:   invalidAdvice,
		poolstate.CauseSecrets:   secretsAdvice,
		poolstate.CauseApplying:  applyingAdvice,
		poolstate.CausePaused:    pausedAdvice,
		poolstate.CauseHalted:    commands(verdictActions),
		poolstate.CauseReverted:  commands(verdictActions),
		poolstate.CauseAfterPool: afterPoolAnswer,
		poolstate.CauseWindow:    windowAdvice,
		poolstate.CauseGate:      gateAdvice,
		poolstate.CauseStep:      commands(stepActions),
		poolstate.CauseSoak:      endsByItself,
		poolstate.CauseTogether:  togetherAdvice,
		poolstate.CauseBudget:    commands(unavailableActions),
		poolstate.CauseDrain:     commands(troubleActions),
		poolstate.CauseCordoned:  commands(troubleActions),
		poolstate.CauseNotReady:  commands(troubleActions),
		poolstate.CauseSilent:    commands(troubleActions),
		poolstate.CauseFailed:    commands(troubleActions),
		poolstate.CauseFetch:     commands(fetchActions),
		poolstate.CauseHeld:      nil,
		poolstate.CauseHost:      nil,
		poolstate.CauseLabels:    nil,
		poolstate.CauseUpdating:  nil,
		poolstate.CauseNext:      nil,
	}
}

// unavailableActions fix the nodes that use up the budget, or change it.
func unavailableActions(f *fleet.Fleet, v *fleet.Pool) []string {
	out := troubleActions(f, v)
	if len(out) > 0 {
		return out
	}
	for _, name := range v.Facts.Care.Pace.Policies {
		out = append(out, editPolicy(f, name)+"   # maxUnavailable")
	}
	if len(out) == 0 && v.Facts.MaxUnavailable < 1 {
		out = append(out, fmt.Sprintf(`kubectl patch mcp %s --type=merge -p '{"spec":{"maxUnavailable":1}}'`,
			v.Object.Name))
	}
	return out
}

// stepActions are for a step that does not end: an empty canary, or nodes that need a person.
func stepActions(f *fleet.Fleet, v *fleet.Pool) []string {
	s, steps := v.Decision.Stage, v.Facts.Care.Pace.Steps
	if s.Want > 0 || s.Step >= len(steps) || steps[s.Step].Selector == nil {
		return troubleActions(f, v)
	}
	var out []string
	if do := label(steps[s.Step].Selector, v.Rows); do != "" {
		out = append(out, do+"   # or another node of pool "+v.Object.Name)
	}
	for _, name := range v.Facts.Care.Pace.Policies {
		do := editPolicy(f, name)
		if len(out) > 0 {
			do = fleet.Alternative("no node is to be the canary", do)
		}
		out = append(out, do)
	}
	return out
}

// label returns the command that labels the first of the nodes so that a selector selects it; "" if no label can.
func label(s labels.Selector, rows []fleet.NodeRow) string {
	requirements, _ := s.Requirements()
	var pairs []string
	for _, r := range requirements {
		values := r.Values().List()
		if r.Operator() != selection.Equals && r.Operator() != selection.DoubleEquals && r.Operator() != selection.In ||
			len(values) == 0 {
			return ""
		}
		pairs = append(pairs, r.Key()+"="+values[0])
	}
	if len(pairs) == 0 || len(rows) == 0 {
		return ""
	}
	return "kubectl label node " + rows[0].Name + " " + strings.Join(pairs, " ")
}

// publishing is how long a server that runs may take to resolve the secrets of a new config.
const publishing = time.Minute

// secretsAdvice is for a config whose secrets are not resolved. A server that runs resolves those of a new config by
// itself.
func secretsAdvice(x blocked, a Answer) Answer {
	target := x.f.Config(x.v.Facts.Target)
	isNew := !target.Created.IsZero() && x.f.Now.Sub(target.Created) < publishing
	if len(x.v.Facts.Secrets.Problems) == 0 && isNew &&
		len(fleet.Alive(x.f.Leases, v1alpha1.ServerComponent, x.f.Now)) > 0 {
		a.Outcome = Progressing
		return a
	}
	a.Do = secretActions(x.f, x.v)
	return a
}

// secretActions are for secrets that the server has not resolved.
func secretActions(f *fleet.Fleet, v *fleet.Pool) []string {
	if problems := v.Facts.Secrets.Problems; len(problems) > 0 {
		return problemActions(problems, v.Object.Name)
	}
	return serverActions(f, "")
}

// serverActions are for a machine-config-server that does not do what it should. The note says what happens then.
func serverActions(f *fleet.Fleet, note string) []string {
	do := []string{"kubectl -n " + v1alpha1.ServerNamespace + " get pods,leases   # does a machine-config-server run?" +
		note}
	if s := f.ReadServers(); s != nil && len(s.Alive()) == 0 && len(s.Replicas) > 0 {
		var names []string
		for _, r := range s.Replicas {
			names = append(names, r.Name)
		}
		do = append(do, "restart machine-config-server, which ran as "+fleet.Names(names, mostAdvised))
	}
	return do
}

// fetchActions are for nodes that cannot download content. They try again by themselves, so there are commands only for
// a server that they do not trust.
func fetchActions(f *fleet.Fleet, v *fleet.Pool) []string {
	for _, row := range v.Rows {
		if n := f.Node(row.Name); n != nil && distrusts(poolstate.ReadNode(n)) {
			return []string{trustAction(v)}
		}
	}
	return nil
}

// afterPoolAnswer adds why the other pools wait.
func afterPoolAnswer(x blocked, a Answer) Answer {
	f, v, asked := x.f, x.v, x.asked
	for _, ahead := range v.Facts.Care.Around.Ahead {
		other := f.PoolByName[ahead.Pool]
		if ahead.Done || other == nil || slices.Contains(asked, ahead.Pool) {
			continue
		}
		if first := PoolReason(f, other, asked)[0]; first.Outcome.NeedsUser() {
			a.Outcome = Blocked // The pool waits for a blocked pool; its own nodes did not fail.
			a.Do = append(a.Do, first.Do...)
		}
		a.Do = append(a.Do, "bunsen why pool/"+ahead.Pool)
	}
	if v.Facts.Care.Around.Quorum != "" && f.PoolByName["arbiter"] != nil {
		a.Do = append(a.Do, troubleActions(f, f.PoolByName["arbiter"])...)
	}
	if v.Facts.Care.Around.Quorum != "" && f.PoolByName["arbiter"] == nil {
		a.Do = append(a.Do, "kubectl -n kube-system get pods -l component=etcd -o wide")
	}
	return a
}

// commands is for a cause that alone determines them.
func commands(actions func(*fleet.Fleet, *fleet.Pool) []string) Advice {
	return func(x blocked, a Answer) Answer {
		a.Do = actions(x.f, x.v)
		return a
	}
}

// endsByItself needs nobody.
func endsByItself(_ blocked, a Answer) Answer { return a }

func applyingAdvice(x blocked, a Answer) Answer {
	if x.f.JustApplied(x.v) != nil {
		a.Outcome = Progressing
		return a
	}
	return applyingAnswer(x.b, x.v.Object, x.f.Sources, x.f.Now)
}

// applyingAnswer is for a pool that waits longer for a whole revision than an apply should take.
func applyingAnswer(b poolstate.Block, pool *mcfgv1.MachineConfigPool, sources []v1alpha1.GitSource,
	now time.Time,
) Answer {
	a := Answer{Outcome: Blocked, Cause: b.Cause, Reason: b.Reason}
	for i := range sources {
		src := &sources[i]
		if text := fleet.ProgressText(src); text != "" && src.Status.Applying != nil && fleet.IsApplying(src, now) {
			a.Outcome, a.Reason = Progressing, "GitSource "+src.Name+" is "+text
			continue
		}
		switch {
		case src.Spec.IsSuspended(now):
			a.Do = append(a.Do, "bunsen resume gitsource/"+src.Name+"   # puts the commit's objects back; to keep "+
				"what users changed, push it first")
		case src.Status.Applying != nil:
			a.Do = append(a.Do, "kubectl describe gitsource "+src.Name)
		case feeds(src, pool):
			c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition)
			if c != nil && c.Status == metav1.ConditionFalse {
				a.Do = append(a.Do, correctSource(src, c.Reason)...)
			}
		}
	}
	own := pool.Annotations[v1alpha1.SourceAnnotation]
	isOwn := func(s v1alpha1.GitSource) bool { return s.Name == own }
	if len(a.Do) == 0 && a.Outcome == Blocked && slices.ContainsFunc(sources, isOwn) {
		a.Do = []string{"kubectl describe gitsource " + own}
	}
	return a
}

func pausedAdvice(x blocked, a Answer) Answer {
	a.Reason = "paused" + fleet.PausedBy(x.v.Object)
	if until := fleet.PausedUntil(x.v.Object); !until.IsZero() {
		a.Outcome, a.Until = Waiting, &until
	}
	a.Do = []string{"bunsen resume pool/" + x.v.Object.Name}
	return a
}

func windowAdvice(x blocked, a Answer) Answer {
	if w := x.f.Window(x.v); w != nil {
		a.Reason = "its maintenance windows are " + w.Text(x.f.Now)
	}
	a.Do = []string{"bunsen resume pool/" + x.v.Object.Name + " --open-for 2h"}
	return a
}

func invalidAdvice(x blocked, a Answer) Answer {
	if a.Do = invalidActions(x.f, x.v, x.b.Policies); x.v.Undecided != "" {
		a.Do = lostConfigActions(x.f, x.v)
	}
	return a
}

// invalidActions are for a user's invalid object.
func invalidActions(f *fleet.Fleet, v *fleet.Pool, policies []string) []string {
	var out []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(policies))) {
		out = append(out, editPolicy(f, name))
	}
	if len(out) == 0 {
		out = append(out, "kubectl describe mcp "+v.Object.Name)
	}
	return out
}

func togetherAdvice(x blocked, a Answer) Answer {
	if a.Do = sharedBudgetActions(x.f, x.v); len(a.Do) == 0 {
		a.Outcome = Waiting
	}
	return a
}

// sharedBudgetActions are for the unavailable nodes that use up a budget of several pools.
func sharedBudgetActions(f *fleet.Fleet, v *fleet.Pool) []string {
	out := troubleActions(f, v)
	for _, t := range v.Facts.Care.Around.Together {
		for _, name := range t.Pools {
			if other := f.PoolByName[name]; other != nil {
				out = append(out, troubleActions(f, other)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func gateAdvice(x blocked, a Answer) Answer {
	if !x.b.EndsByItself() {
		a.Do = gateActions(x.f, x.v)
	}
	return a
}

// problemActions has each command once.
func problemActions(problems []v1alpha1.SecretProblem, pool string) []string {
	var out []string
	for _, p := range problems {
		if do := problemAction(p, pool); !slices.Contains(out, do) {
			out = append(out, do)
		}
	}
	return out
}

func problemAction(p v1alpha1.SecretProblem, pool string) string {
	kubectl := "kubectl -n " + v1alpha1.SecretsNamespace
	kind, key := "secret", ""
	r, err := machineconfig.ParseSecret(p.Reference)
	if err == nil {
		kind, key = string(r.Kind), fleet.ShellWord(r.Key)
	}
	explain := "bunsen explain " + fleet.ShellWord(p.Path) + " --pool " + fleet.ShellWord(pool)
	switch {
	case p.Reason == v1alpha1.SecretNotFound && err == nil:
		create := map[machineconfig.SecretKind]string{
			machineconfig.Secret:    "secret generic",
			machineconfig.ConfigMap: "configmap",
		}[r.Kind]
		return fmt.Sprintf("%s create %s %s --from-file=%s=FILE   # if it exists, add the key with kubectl edit",
			kubectl, create, fleet.ShellWord(r.Name), key)
	case p.Reason == v1alpha1.SecretNotForPool && err == nil:
		// The message has a command too, but with a value that the owner of the object chose.
		return fmt.Sprintf("%s edit %s %s   # add pool %s to the annotation %s", kubectl, kind, fleet.ShellWord(r.Name),
			pool, v1alpha1.SecretPoolsAnnotation)
	case p.Reason == v1alpha1.SecretNoKey:
		return fmt.Sprintf("kubectl -n %s create secret generic %s --from-file=FILE   # FILE is the age key; if the "+
			"Secret exists, add the key with kubectl edit, or encrypt for a key of the server with `bunsen secret "+
			"rotate` and push", v1alpha1.ServerNamespace, v1alpha1.AgeKeysSecret)
	case p.Reason == v1alpha1.SecretKeyService:
		return fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=machine-config-server --all-containers  "+
			" # the "+
			"key service beside the server; the server asks it again by itself", v1alpha1.ServerNamespace)
	case p.Reason == v1alpha1.SecretNotDecrypted:
		return explain + "   # the encrypted file; restore it from git, or encrypt it again, and push"
	case p.Reason == v1alpha1.SecretTooLarge:
		return explain + "   # make the value smaller, or divide the file"
	}
	return "bunsen validate   # in the repository"
}
