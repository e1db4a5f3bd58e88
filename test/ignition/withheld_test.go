package ignition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestAMachineThatGotItsSecretsLaterIsOneThatBootedWithThem boots random configs twice: whole, and as the server gives
// them to who came with a token of no node. The second machine is completed as the daemon does it.
func TestAMachineThatGotItsSecretsLaterIsOneThatBootedWithThem(t *testing.T) {
	j := need(t)
	d := dice{rand.New(rand.NewPCG(7, 43))}
	lab := bench{j, memory(t)}
	late := 0
	for range max(1, *pairs/5) {
		c := d.secrets(d.config())
		whole, err := lab.boot(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		part, err := lab.bear(t.Context(), c, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(difference(whole.looks, part.looks)) > 0 {
			late++
		}
		if why := complete(t.Context(), part, whole); why != nil {
			raw, _ := machineconfig.Config{Ignition: c}.IgnitionJSON()
			t.Errorf("%v\n%s", why, raw)
		}
		if err := errors.Join(os.RemoveAll(whole.root), os.RemoveAll(part.root)); err != nil {
			t.Fatal(err)
		}
	}
	if late == 0 {
		t.Error("nothing was ever withheld")
	}
	t.Logf("%d of %d lacked something at first", late, max(1, *pairs/5))
}

// secrets makes some of a config's texts such as few people should read.
func (d dice) secrets(c ign.Config) ign.Config {
	const password = "password=hunter2\n"
	hidden := ign.Resource{Source: ptr("data:," + dataurl.Escape([]byte(password)))}
	for i := range c.Storage.Files {
		f := &c.Storage.Files[i]
		if f.Contents.Source != nil && d.once(3) {
			f.Contents = hidden
		}
		if len(f.Append) > 0 && d.once(3) {
			f.Append[0] = hidden
		}
	}
	for i := range c.Systemd.Units {
		u := &c.Systemd.Units[i]
		if u.Contents != nil && d.once(3) {
			u.Contents = ptr(*u.Contents + "[Unit]\nDescription=" + password)
		}
		if d.once(4) {
			u.Dropins = append(u.Dropins, ign.Dropin{
				Name:     "30-hidden.conf",
				Contents: ptr("[Service]\nEnvironment=" + password),
			})
		}
	}
	return c
}

// marksOf marks the files and units that have a secret.
func marksOf(c ign.Config) string {
	var marks secretmask.Paths
	for _, f := range c.Storage.Files {
		for _, r := range append([]ign.Resource{f.Contents}, f.Append...) {
			// A mark cannot name every path.
			if r.Source != nil && strings.Contains(*r.Source, "hunter2") && !strings.ContainsAny(f.Path, ", *?[\\") {
				marks = append(marks, f.Path)
			}
		}
	}
	for _, u := range c.Systemd.Units {
		text := ""
		if u.Contents != nil {
			text = *u.Contents
		}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				text += *d.Contents
			}
		}
		if strings.Contains(text, "hunter2") {
			marks = append(marks, u.Name)
		}
	}
	return secretmask.Join(marks)
}

// complete gives a machine what was withheld, and compares it with one that had it from the beginning.
func complete(ctx context.Context, m, whole machine) error {
	d, err := openDaemon(m.root)
	if err != nil {
		return err
	}
	defer d.root.Close() //nolint:errcheck // a directory of the test's own
	accounts, err := apply.Accounts(ctx, d.host)
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, d.host, plan.ScopeOf(plan.DesiredOf(m.named.Config, accounts)))
	if err != nil {
		return err
	}
	born := plan.Config{Name: m.named.Name, Config: plan.AtFirstBoot(m.named, accounts, observed)}
	if err := d.move(ctx, born, m.named); err != nil {
		return err
	}
	if drifted, err := d.drift(ctx, m.named); err != nil || len(drifted) > 0 {
		return errors.Join(err, fmt.Errorf("it is not whole: %v", drifted))
	}
	looks, err := treeOf(m.root)
	if err != nil {
		return err
	}
	if differ := difference(whole.looks, looks.anyOwner(m.config.Storage.Links)); len(differ) > 0 {
		return fmt.Errorf("it is not as if it had booted so:\n%s", strings.Join(differ, "\n"))
	}
	return nil
}
