package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// keptSecretsAnswers is the answer for a pool whose nodes keep the earlier values of their secrets, because the server
// cannot resolve the present ones; none for any other pool.
func keptSecretsAnswers(v *fleet.Pool) []Answer {
	problems := v.Facts.Secrets.Problems
	if len(problems) == 0 || v.Facts.Secrets.Unresolved != "" {
		return nil
	}
	return []Answer{{
		Outcome: Blocked, Cause: poolstate.CauseSecrets, Do: problemActions(problems, v.Object.Name),
		Reason: "its nodes keep the earlier values of their secrets, because the " +
			"machine-config-server cannot resolve " +
			poolstate.ProblemsText(problems),
	}}
}

// secretActions are the commands for a pool whose config has secrets that the server has not resolved.
func secretActions(_ *fleet.Fleet, v *fleet.Pool) []string {
	if problems := v.Facts.Secrets.Problems; len(problems) > 0 {
		return problemActions(problems, v.Object.Name)
	}
	return []string{"kubectl -n " + v1alpha1.ServerNamespace + " get pods,leases   # does a machine-config-server run?"}
}

// problemActions are the commands against problems of secrets, each once.
func problemActions(problems []v1alpha1.SecretProblem, pool string) []string {
	var out []string
	for _, p := range problems {
		if do := problemAction(p, pool); !slices.Contains(out, do) {
			out = append(out, do)
		}
	}
	return out
}

// problemAction is the command against one problem of a secret.
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

// undoSecrets are the commands that correct the secrets that changed before a rollout failed.
func undoSecrets(f *fleet.Fleet, v *fleet.Pool) []string {
	var out []string
	for _, c := range fleet.SecretsChangedIn(f, v.Decision.Record.Config, fleet.EarlierRollout(v),
		v.Decision.Record.Began.Time) {
		kind, name, _ := strings.Cut(c.Object, ":")
		if c.Manager != "" { // Any program may choose any name.
			c.Manager = fleet.ShellWord(safetext.OneLine(c.Manager))
		}
		change := strings.TrimPrefix(fleet.ChangeText(c), fleet.ObjectText(c.Object)+" ")
		out = append(out, fmt.Sprintf("kubectl -n %s edit %s %s   # it %s", v1alpha1.SecretsNamespace,
			fleet.ShellWord(kind), fleet.ShellWord(name), change))
	}
	if len(out) == 0 {
		out = append(out, "kubectl -n "+v1alpha1.SecretsNamespace+" get secrets,configmaps   # correct the values "+
			"that changed")
	}
	return out
}
