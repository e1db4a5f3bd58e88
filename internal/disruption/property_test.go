package disruption_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// randomConfig draws from few names and values, so that two configs meet in many and differ in some.
func randomConfig(t *testing.T, r *rand.Rand) machineconfig.Config {
	pick := func(values ...string) string { return values[r.Intn(len(values))] }
	list := func(most int, item func(n int) string) string {
		var items []string
		for _, n := range r.Perm(most) {
			if r.Intn(2) == 0 {
				items = append(items, item(n))
			}
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	storage := fmt.Sprintf(`"storage":{"files":%s,"directories":%s,"links":%s,"disks":%s,"filesystems":%s,"luks":%s}`,
		list(3, func(n int) string {
			return fmt.Sprintf(`{"path":%q%s%s}`, []string{
				"/etc/f0", "/etc/containers/policy.json",
				disruption.RegistriesConf,
			}[n],
				pick("", `,"mode":420`, `,"mode":384`), pick("", `,"contents":{"source":"data:,a"}`,
					`,"append":[{"source":"data:,b"}]`))
		}),
		list(2, func(n int) string {
			return fmt.Sprintf(`{"path":"/d%d"%s}`, n, pick("", `,"mode":493`, `,"mode":448`, `,"overwrite":true`))
		}),
		list(2, func(n int) string {
			return fmt.Sprintf(`{"path":"/l%d","target":%q%s}`, n, pick("/t", "/u"), pick("", "", `,"hard":true`))
		}),
		list(1, func(int) string { return `{"device":"/dev/sdb","wipeTable":` + pick("true", "false") + `}` }),
		list(1, func(int) string { return `{"device":"/dev/sdb1","format":"` + pick("xfs", "ext4") + `"}` }),
		list(1, func(int) string { return `{"name":"l","device":"/dev/sdb2"}` }))
	users := list(2, func(n int) string {
		return fmt.Sprintf(`{"name":%q%s%s%s}`, []string{"core", "bob"}[n],
			pick("", `,"passwordHash":"x"`, `,"sshAuthorizedKeys":["k"]`),
			pick("", "", `,"uid":2000`, `,"uid":2001`), pick("", "", `,"shell":"/bin/sh"`, `,"system":true`,
				`,"shouldExist":false`, `,"homeDir":"/h"`))
	})
	groups := list(1, func(int) string {
		return `{"name":"g"` + pick("", `,"gid":1`, `,"gid":2`, `,"system":true`) + `}`
	})
	units := list(1, func(int) string { return `{"name":"a.service","enabled":` + pick("true", "false") + `}` })
	c := config(t, storage+`,"passwd":{"users":`+users+`,"groups":`+groups+`},"systemd":{"units":`+units+
		`},"kernelArguments":{"shouldExist":`+list(1, func(int) string { return `"a"` })+`}`)
	c.FIPS = r.Intn(8) == 0
	return c
}

// TestPolicyIsOfOnePiece holds what every pair of configs must show.
func TestPolicyIsOfOnePiece(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 3000 {
		from, to := randomConfig(t, r), randomConfig(t, r)
		if got := disruption.Refuse(to, to, disruption.Overrides{}); len(got) > len(disruption.Invalid(to)) {
			t.Fatalf("staying the same is refused: %v", got)
		}
		if d, only := disruption.Decide(to, to, disruption.Default()), disruption.NewNodesOnly(to,
			to); len(d.Items)+len(only) > 0 {
			t.Fatalf("staying the same differs: %v %v", d.Items, only)
		}
		changes := disruption.Compare(from, to)
		decision := disruption.Decide(from, to, disruption.Default())
		var items disruption.Changes
		quiet := map[disruption.Change]bool{}
		for _, i := range decision.Items {
			items = append(items, i.Change)
			quiet[i.Change] = i.Why == "only new nodes get it"
		}
		if diff := cmp.Diff(changes, items); diff != "" {
			t.Fatalf("Decide speaks of other changes than Compare:\n%s", diff)
		}
		only := disruption.NewNodesOnly(from, to)
		for change, q := range quiet {
			if q && len(only) == 0 {
				t.Fatalf("%v is for new nodes only, and NewNodesOnly does not know", change)
			}
		}
		wide := disruption.Refuse(from, to, disruption.Overrides{OpenShift: true})
		for _, n := range disruption.Refuse(from, to, disruption.Overrides{}) {
			if !covered(n.Field, wide) {
				t.Fatalf("%s is refused by itself, and not with OpenShift's limits: %v", n.Field, wide)
			}
			if len(changes) == 0 {
				t.Fatalf("%s is refused though nothing changes", n.Field)
			}
		}
	}
}

// covered tells that a field, or the list that it is in, is refused too.
func covered(field string, by []disruption.Refusal) bool {
	for _, r := range by {
		if field == r.Field || strings.HasPrefix(field, r.Field+" ") {
			return true
		}
	}
	return false
}
