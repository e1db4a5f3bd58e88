package drift

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// maxNamed is how many items a reason names. For more items, the reason has the number of the rest.
const maxNamed = 6

// Reason returns why the node is Degraded and what to do; "" if no item has the action Degrade. The first part of the
// text is the same as that of the machine-config-operator.
func (d Decision) Reason(config string) string {
	var degrade []Result
	for _, v := range d.Results {
		if v.Action == v1alpha1.DriftDegrade {
			degrade = append(degrade, v)
		}
	}
	if len(degrade) == 0 {
		return ""
	}
	return fmt.Sprintf("%s. Restore it, keep it with `bunsen drift adopt`, or touch %s to overwrite it",
		Summary(config, degrade), host.ForcePath)
}

// Summary returns one line about differences from a config. Summary names the first items.
func Summary(config string, all []Result) string {
	var texts []string
	for _, v := range all[:min(len(all), maxNamed)] {
		texts = append(texts, v.String())
	}
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more (see bunsen drift)", more))
	}
	return fmt.Sprintf("unexpected on-disk state validating against %s: %s", config, strings.Join(texts, "; "))
}

// String describes one item: what differs, expected and actual, when it was modified, and why it is not repaired.
func (v Result) String() string {
	text := v.what()
	if v.isPath() && !v.Modified.IsZero() {
		text += ", modified " + v.Modified.UTC().Format(time.RFC3339)
	}
	if v.Why != "" {
		text += " (not repaired: " + v.Why + ")"
	}
	return text
}

// String describes what differs, without contents and digests, because they may be secret.
func (it Item) String() string { return Result{Item: it, Secret: true}.what() }

// what describes what differs: expected and actual.
func (v Result) what() string {
	is, shall, at := v.Step.Before, v.Step.After, strconv.Quote(v.Name)
	if v.Unsafe != "" {
		return fmt.Sprintf("unsafe path %s: %s", at, v.Unsafe)
	}
	switch v.Kind {
	case v1alpha1.DriftMissing, v1alpha1.DriftType:
		text := fmt.Sprintf("kind mismatch for %s: expected %s; received %s", at, kindWord(shall.Entry),
			kindWord(is.Entry))
		if mask := (host.Obstacle{Why: host.UnitMasked, At: v.Name}); v.Unit != "" &&
			shall.Entry.Kind == host.Absent && host.IsMask(v.Name, is.Entry) {
			text += ": the unit " + mask.Problem() + ": " + mask.Advice(v.Unit)
		}
		return text
	case v1alpha1.DriftContent:
		text := fmt.Sprintf("content mismatch for file %s", at)
		if !v.Secret {
			text += fmt.Sprintf("; expected sha256 %s; received %s", shall.Entry.Digest.Short(),
				is.Entry.Digest.Short())
		}
		return text + fmt.Sprintf(", mode %04o, owner %d:%d", is.Entry.Mode, is.Entry.Owner.UID, is.Entry.Owner.GID)
	case v1alpha1.DriftTarget:
		return fmt.Sprintf("target mismatch for link %s; expected %q; received %q", at, shall.Entry.Target,
			is.Entry.Target)
	case v1alpha1.DriftMode:
		return fmt.Sprintf("mode mismatch for %s: %s; expected %04o; received %04o", kindWord(shall.Entry), at,
			shall.Entry.Mode, is.Entry.Mode)
	case v1alpha1.DriftOwner:
		return fmt.Sprintf("owner mismatch for %s: %s; expected %s; received %s", kindWord(shall.Entry), at,
			owner(shall.Entry), owner(is.Entry))
	case v1alpha1.DriftEnablement:
		text := fmt.Sprintf("unit %s: expected %s; received %s", at, shall.Word, is.Word)
		if v.Obstacle.Why != "" {
			text += ": it " + v.Obstacle.Problem() + ": " + v.Obstacle.Advice(v.Name)
		}
		return text
	case v1alpha1.DriftAccount:
		return v.account()
	}
	return fmt.Sprintf("%s: expected %q; received %q", strings.TrimPrefix(v.Name, "os/"), shall.Word, is.Word)
}

// account describes how a user or group differs, without passwords.
func (v Result) account() string {
	is, shall, at := v.Step.Before, v.Step.After, strconv.Quote(v.Step.Target)
	if strings.HasPrefix(v.Name, groupPrefix) {
		return fmt.Sprintf("group %s: expected %s; received %s", at, shall.Group, is.Group)
	}
	if is.User.There != shall.User.There {
		return fmt.Sprintf("user %s: expected %s; received %s", at, there(shall.User.There), there(is.User.There))
	}
	return fmt.Sprintf("user %s: %s", at, is.User.Difference(shall.User))
}

func there(is bool) string {
	if is {
		return "present"
	}
	return "absent"
}

func kindWord(e host.Entry) string {
	if e.Kind == host.Absent {
		return "nothing"
	}
	return string(e.Kind)
}

func owner(e host.Entry) string { return fmt.Sprintf("%d:%d", e.Owner.UID, e.Owner.GID) }
