package sops_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/sops"
)

const a, b = "age1pattmatlnr5cd75xgeq4w4wln67rzm87z3pjemavuyhgag3ausjsv4h3r0",
	"age1zlkjsyjz0nrvm3e0aqsxrhhzvp9fgt7crkvk2wgplxq0svwzcfnsqv6unn"

func TestTheFirstRuleWithTheFilesPathApplies(t *testing.T) {
	rs, err := sops.ParseRules([]byte("creation_rules:\n" +
		"- path_regex: \\.env$\n  age: " + a + ", " + b + "\n" +
		"- path_regex: ^pools/\n  encrypted_regex: ^pass\n  shamir_threshold: 2\n  key_groups:\n  - age: [" + a +
		"]\n  - age: [" + b + "]\n    pgp: [x]\n" +
		"- age: " + b + "\n  kms: arn\nstores: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		groups, threshold int
		foreign           string
	}{
		"x.env": {1, 0, ""}, "pools/a/x.env": {1, 0, ""}, "pools/a/x.yaml": {2, 2, "pgp"}, "other": {1, 0, "kms"},
	} {
		r, ok := rs.For(path)
		if !ok || len(r.Groups) != want.groups || r.Threshold != want.threshold ||
			strings.Join(r.Foreign, " ") != want.foreign {
			t.Errorf("%s: got %+v", path, r)
		}
	}
	if r, _ := rs.For("x.env"); !slices.Equal(r.Recipients(), []string{a, b}) {
		t.Errorf("got %v", r.Recipients())
	}
}

func TestBadRulesAreAllReported(t *testing.T) {
	_, err := sops.ParseRules([]byte("creation_rules:\n- path_regex: '('\n  age: nokey\n- age: " + a +
		"\n  encrypted_regex: x\n  encrypted_suffix: y\n- shamir_threshold: 3\n  age: " + a + "\n"))
	for _, want := range []string{
		"rule 1: path_regex", `"nokey" is no public key`, "rule 2: it has more than one rule",
		"rule 3: shamir_threshold 3",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := sops.ParseRules([]byte("creation_rules: [a: b: c]")); err == nil {
		t.Error("broken YAML is accepted")
	}
	if rs, err := sops.ParseRules(nil); err != nil || len(rs) != 0 {
		t.Error(rs, err)
	}
}
