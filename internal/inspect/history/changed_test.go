package history_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

func TestTheLastChangeOfAnItem(t *testing.T) {
	config := func(motd string, kargs ...string) machineconfig.Config {
		var c ign.Config
		text := `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/motd","contents":{"source":"data:,` +
			motd + `"}},{"path":"/etc/hosts","contents":{"source":"data:,same"}}]}}`
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		return machineconfig.Config{Ignition: c, KernelArguments: kargs}
	}
	motd := history.ItemKey{Kind: disruption.KindFile, Name: "/etc/motd"}
	hosts := history.ItemKey{Kind: disruption.KindFile, Name: "/etc/hosts"}
	quiet := history.ItemKey{Kind: disruption.KindKargs, Name: "quiet"}
	step := func(subject, before, after string) history.Row {
		return history.Row{
			Subject: subject, Before: before, Rendered: after, RowOutcome: history.RowOutcome{Began: new(time.Time)},
		}
	}
	commit := history.Row{Subject: "of another pool", Rendered: "a"} // it has no rollout
	for because, tt := range map[string]struct {
		configs map[string]machineconfig.Config
		rows    []history.Row // newest first
		of      string
		want    map[history.ItemKey]string // "?" after the subject: unchanged since
	}{
		"the newest row that differs": {
			map[string]machineconfig.Config{"a": config("1"), "b": config("2"), "c": config("2", "quiet")},
			[]history.Row{step("quiet", "b", "c"), step("motd", "a", "b")},
			"c",
			map[history.ItemKey]string{motd: "motd", quiet: "quiet", hosts: "motd?"},
		},
		"a revert is the last change": {
			map[string]machineconfig.Config{"a": config("1"), "b": config("2")},
			[]history.Row{step("Revert motd", "b", "a"), step("motd", "a", "b")},
			"a",
			map[history.ItemKey]string{motd: "Revert motd", quiet: "motd?", hosts: "motd?"},
		},
		"a retry and new secrets change nothing": {
			map[string]machineconfig.Config{"a": config("1"), "b": config("2")},
			[]history.Row{step("retry", "b", "b"), step("motd", "a", "b")},
			"b",
			map[history.ItemKey]string{motd: "motd", quiet: "motd?", hosts: "motd?"},
		},
		"an earlier config of a node that waits": {
			map[string]machineconfig.Config{"a": config("1"), "b": config("2"), "c": config("3")},
			[]history.Row{step("three", "b", "c"), step("two", "a", "b")},
			"b",
			map[history.ItemKey]string{motd: "two", quiet: "two?", hosts: "two?"},
		},
		"what was before is gone": {
			map[string]machineconfig.Config{"c": config("2"), "b": config("2")},
			[]history.Row{step("units", "b", "c"), step("motd", "a", "b")},
			"c",
			map[history.ItemKey]string{motd: "units?", quiet: "units?", hosts: "units?"},
		},
		"the first config": {
			map[string]machineconfig.Config{"a": config("1")},
			[]history.Row{step("begin", "", "a")},
			"a",
			map[history.ItemKey]string{motd: "begin", hosts: "begin", quiet: "begin"},
		},
		"a commit without a rollout brought nothing": {
			map[string]machineconfig.Config{"a": config("1")},
			[]history.Row{step("new secrets", "a", "a"), commit},
			"a",
			map[history.ItemKey]string{},
		},
		"an older commit without a rollout hides nothing": {
			map[string]machineconfig.Config{"a": config("1")},
			[]history.Row{step("begin", "", "a"), commit},
			"a",
			map[history.ItemKey]string{motd: "begin", hosts: "begin", quiet: "begin"},
		},
		"it came with the first config": {
			map[string]machineconfig.Config{"a": config("1"), "b": config("2")},
			[]history.Row{step("motd", "a", "b"), step("begin", "", "a")},
			"b",
			map[history.ItemKey]string{motd: "motd", hosts: "begin", quiet: "begin"},
		},
	} {
		t.Run(because, func(t *testing.T) {
			read := func(name string) (machineconfig.Config, bool, error) {
				c, has := tt.configs[name]
				return c, has, nil
			}
			got := map[history.ItemKey]string{}
			all := []history.ItemKey{motd, hosts, quiet}
			changes, err := history.History{Rows: tt.rows}.LastChanges(tt.of, all, read)
			if err != nil {
				t.Fatal(err)
			}
			for item, last := range changes {
				got[item] = tt.rows[last.Row].Subject
				if last.Unchanged {
					got[item] += "?"
				}
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestATraceSaysWhoChangedWhat for each item, in a table, as far as it is known.
func TestATraceSaysWhoChangedWhat(t *testing.T) {
	by := history.Row{
		Revision: "main@sha1:" + strings.Repeat("1f540853", 5), Subject: "Greet",
		Author: "Ada Lovelace <ada@example.com>",
	}
	trace := history.Trace{Items: []history.TraceItem{
		{Item: "file /etc/issue", Changed: &by, NotSince: true},
		{Item: "file /etc/motd", Place: "pools/worker/10-motd.bu:5:7", Changed: &by},
		{Item: "unit chronyd.service", Place: "base/10-chrony.bu:3:7"},
	}}
	_, table, _ := strings.Cut(trace.Text(), "\n\n")
	want := `ITEM                   SET BY                        LAST CHANGED BY
file /etc/issue        -                             before 1f540853 "Greet" Ada Lovelace
file /etc/motd         pools/worker/10-motd.bu:5:7   1f540853 "Greet" Ada Lovelace
unit chronyd.service   base/10-chrony.bu:3:7         -
`
	if table != want {
		t.Errorf("the table is\n%s\nnot\n%s", table, want)
	}
}
