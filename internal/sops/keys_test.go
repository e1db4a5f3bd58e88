package sops_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// theirs is a file as SOPS writes it for keys of other kinds: each group of the base file gets its recipients as YAML,
// and none of age.
func theirs(t *testing.T, groups ...string) []byte {
	t.Helper()
	_, to := newKey(t)
	body := string(encrypt(t, "yaml", "a: 1\n", sops.Policy{Groups: [][]string{{to}}}))
	before, rest, found := strings.Cut(body, "    age:\n")
	_, after, ended := strings.Cut(rest, "    lastmodified:")
	if !found || !ended {
		t.Fatalf("unexpected form of a file:\n%s", body)
	}
	var added string
	if len(groups) == 1 {
		added = "    " + strings.ReplaceAll(strings.TrimSpace(groups[0]), "\n", "\n    ") + "\n"
	} else {
		added = "    shamir_threshold: 2\n    key_groups:\n"
		for _, g := range groups {
			added += "        - " + strings.ReplaceAll(strings.TrimSpace(g), "\n", "\n          ") + "\n"
		}
	}
	return []byte(before + added + "    lastmodified:" + after)
}

const (
	listedPGP  = "pgp 85D77543B3D624B63CEA9E6DBC17301B491B3F21"
	listedKMS  = "kms arn:aws:kms:eu:1:key/a"
	pgpGroup   = "pgp:\n  - fp: 85D77543B3D624B63CEA9E6DBC17301B491B3F21\n    enc: one\n"
	kmsGroup   = "kms:\n  - arn: arn:aws:kms:eu:1:key/a\n    enc: two\n"
	vaultGroup = "hc_vault:\n  - vault_address: https://vault.example\n    engine_path: transit\n    key_name: k\n" +
		"    enc: three\n"
)

// TestTheKeyServiceIsAskedForListedKeysOnly: a file may name any key, and the owner decides for which ones the key
// service is asked.
func TestTheKeyServiceIsAskedForListedKeysOnly(t *testing.T) {
	many := "pgp:\n" + strings.Repeat("  - fp: 85D77543B3D624B63CEA9E6DBC17301B491B3F21\n    enc: one\n", 21)
	for because, c := range map[string]struct {
		groups  []string
		allowed string
		answers map[string]string
		asked   string
		want    string
		passing bool
	}{
		"pgp comes before the others, as with the program": {
			[]string{kmsGroup + pgpGroup},
			listedPGP + "," + listedKMS, nil, listedPGP + "," + listedKMS,
			`did not decrypt the data key for "` + listedPGP + `": away; the key service did not decrypt the data key for "` + listedKMS + `": away`, true,
		},
		"a key that is not listed": {
			[]string{pgpGroup},
			listedKMS, nil, "",
			`was not asked for "` + listedPGP + `", because only its owner decides for which keys it is: if this key is yours, add that text to the list`, false,
		},
		"the role of another account": {
			[]string{strings.Replace(kmsGroup, "    enc", "    role: arn:aws:iam::9:role/x\n    enc", 1)},
			listedKMS, nil, "",
			`"` + listedKMS + ` role=arn:aws:iam::9:role/x"`, false,
		},
		"another profile of the service": {
			[]string{strings.Replace(kmsGroup, "    enc", "    aws_profile: root\n    enc", 1)},
			listedKMS, nil, "",
			`"` + listedKMS + ` profile=root"`, false,
		},
		"another context": {
			[]string{strings.Replace(kmsGroup, "    enc", "    context:\n        for: other app\n    enc", 1)},
			listedKMS, nil, "",
			`"` + listedKMS + ` context:for=other+app"`, false,
		},
		"another address of Vault": {
			[]string{strings.Replace(vaultGroup, "vault.example", "attacker.example", 1)},
			"hc_vault https://vault.example transit k", nil, "",
			`"hc_vault https://attacker.example transit k"`, false,
		},
		"a name that could be divided in another way": {
			[]string{strings.Replace(vaultGroup, "transit", "transit k", 1)},
			"hc_vault https://vault.example transit k", nil, "",
			"has a space in its name", false,
		},
		"more keys than a file may have": {[]string{many}, listedPGP, nil, "", "the file has 21 keys, and at most 20", false},
		"an answer that is no data key": {
			[]string{pgpGroup},
			listedPGP,
			map[string]string{listedPGP: "short"},
			listedPGP,
			"answered with 5 bytes, and a data key has 32", true,
		},
		"another data key": {
			[]string{pgpGroup},
			listedPGP,
			map[string]string{listedPGP: strings.Repeat("x", 32)},
			listedPGP,
			"it was changed", false,
		},
		"a part of each group": {
			[]string{pgpGroup, kmsGroup, vaultGroup},
			listedPGP + "," + listedKMS + ",hc_vault https://vault.example transit k",
			map[string]string{listedPGP: strings.Repeat("x", 32) + "\x01", listedKMS: strings.Repeat("x", 32) + "\x02"},
			listedPGP + "," + listedKMS, "it was changed", false,
		},
		"too few parts": {
			[]string{pgpGroup, kmsGroup},
			listedPGP,
			map[string]string{listedPGP: strings.Repeat("x", 32) + "\x01"},
			listedPGP, "(2 of its 2 key groups are needed, and 1 could be decrypted)", false,
		},
	} {
		var asked []string
		keys := sops.Keys{Service: &sops.Service{
			Allowed: strings.Split(c.allowed, ","), AllowedIn: "the list",
			Ask: func(r document.Recipient) ([]byte, error) {
				asked = append(asked, r.String())
				if answer, ok := c.answers[r.String()]; ok {
					return []byte(answer), nil
				}
				return nil, errors.New("away")
			},
		}}
		_, err := keys.Decrypt("yaml", theirs(t, c.groups...))
		missing := new(sops.MissingKeyError)
		if passing := errors.As(err, &missing) && missing.Asked; err == nil || !strings.Contains(err.Error(), c.want) ||
			passing != c.passing {
			t.Errorf("%s: passing %t, got %v, want %q", because, passing, err, c.want)
		}
		if got := strings.Join(asked, ","); got != c.asked {
			t.Errorf("%s: asked for %q, want %q", because, got, c.asked)
		}
	}
}

// TestAnAgeKeyIsUsedBeforeTheKeyServiceIsAsked: nothing is asked for what is there.
func TestAnAgeKeyIsUsedBeforeTheKeyServiceIsAsked(t *testing.T) {
	id, to := newKey(t)
	keys := sops.Keys{Age: nil, Service: &sops.Service{
		Allowed: []string{to},
		Ask: func(r document.Recipient) ([]byte, error) {
			return nil, fmt.Errorf("asked for %s", r)
		},
	}}
	body := encrypt(t, "yaml", "a: 1\n", sops.Policy{Groups: [][]string{{to}}})
	if _, err := keys.Decrypt("yaml", body); err == nil || !strings.Contains(err.Error(), "asked for "+to) {
		t.Errorf("without the age key: %v", err)
	}
	keys.Age = append(keys.Age, id)
	if got, err := keys.Decrypt("yaml", body); err != nil || string(got) != "a: 1\n" {
		t.Errorf("with the age key: %q, %v", got, err)
	}
	if _, err := (sops.Keys{}).Decrypt("yaml", theirs(t, pgpGroup)); err == nil ||
		!strings.Contains(err.Error(), "start a key service") {
		t.Errorf("without a key service: %v", err)
	}
}

func TestParseAllowed(t *testing.T) {
	for text, ok := range map[string]bool{
		"pgp 85D7": true, "age1x": true, "hc_vault https://v transit k": true, "azure_kv https://v k": true,
		"85D7": false, "": false, "kms": false, "kms ": false, "age age1x": false, "pgp  x": false, "pgp x\n": false,
	} {
		if err := sops.ParseAllowed(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
