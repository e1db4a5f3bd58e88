package drift

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// mostTold are how many items a reason names; the rest is counted. A reason has 2000 characters.
const mostTold = 6

// Reason is why the node is Degraded, or "" where nothing degrades it. The words are those that the machine-config API
// always had, and what to do.
func (d Decision) Reason(config string) string {
	var degrade []Verdict
	for _, v := range d.Verdicts {
		if v.Action == v1alpha1.DriftDegrade {
			degrade = append(degrade, v)
		}
	}
	if len(degrade) == 0 {
		return ""
	}
	return fmt.Sprintf("%s. Restore it, keep it with `bunsen drift adopt`, or touch %s to overwrite it", Summary(config, degrade), host.ForcePath)
}

// Summary is one line about things that differ from a config: it names a few, and counts the rest.
func Summary(config string, all []Verdict) string {
	var told []string
	for _, v := range all[:min(len(all), mostTold)] {
		told = append(told, v.String())
	}
	if more := len(all) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("and %d more (see bunsen drift)", more))
	}
	return fmt.Sprintf("unexpected on-disk state validating against %s: %s", config, strings.Join(told, "; "))
}

// String is one item in words: what differs, expected and actual, when it was modified, and why it is not repaired.
func (v Verdict) String() string {
	text := v.what()
	if v.isPath() && !v.Modified.IsZero() {
		text += ", modified " + v.Modified.UTC().Format(time.RFC3339)
	}
	if v.Why != "" {
		text += " (not repaired: " + v.Why + ")"
	}
	return text
}

// String is what differs, with both sides, without contents and digests: nobody has looked whether they are secret.
func (it Item) String() string { return Verdict{Item: it, Secret: true}.what() }

// what differs, with both sides.
func (v Verdict) what() string {
	is, shall, at := v.Step.Before, v.Step.After, strconv.Quote(v.Name)
	if v.Unsafe != "" {
		return fmt.Sprintf("unsafe path %s: %s", at, v.Unsafe)
	}
	switch v.Kind {
	case v1alpha1.DriftMissing, v1alpha1.DriftType:
		return fmt.Sprintf("kind mismatch for %s: expected %s; received %s", at, kindWord(shall.Entry), kindWord(is.Entry))
	case v1alpha1.DriftContent:
		text := fmt.Sprintf("content mismatch for file %s", at)
		if !v.Secret {
			text += fmt.Sprintf("; expected sha256 %s; received %s", shall.Entry.Digest.Short(), is.Entry.Digest.Short())
		}
		return text + fmt.Sprintf(", mode %04o, owner %d:%d", is.Entry.Mode, is.Entry.Owner.UID, is.Entry.Owner.GID)
	case v1alpha1.DriftTarget:
		return fmt.Sprintf("target mismatch for link %s; expected %q; received %q", at, shall.Entry.Target, is.Entry.Target)
	case v1alpha1.DriftMode:
		return fmt.Sprintf("mode mismatch for %s: %s; expected %04o; received %04o", kindWord(shall.Entry), at, shall.Entry.Mode, is.Entry.Mode)
	case v1alpha1.DriftOwner:
		return fmt.Sprintf("owner mismatch for %s: %s; expected %s; received %s", kindWord(shall.Entry), at, owner(shall.Entry), owner(is.Entry))
	case v1alpha1.DriftEnablement:
		return fmt.Sprintf("unit %s: expected %s; received %s", at, shall.Word, is.Word)
	case v1alpha1.DriftAccount:
		return v.account()
	}
	return fmt.Sprintf("%s: expected %q; received %q", strings.TrimPrefix(v.Name, "os/"), shall.Word, is.Word)
}

// account says in what a user or group differs. Passwords are not told.
func (v Verdict) account() string {
	is, shall, at := v.Step.Before, v.Step.After, strconv.Quote(v.Step.Target)
	if strings.HasPrefix(v.Name, "group/") {
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
