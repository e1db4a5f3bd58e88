package join_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcs/join"
)

// fresh is a token of bytes that are all the same.
func fresh(t testing.TB, b byte) join.Token {
	t.Helper()
	tok, err := join.NewToken(bytes.NewReader(bytes.Repeat([]byte{b}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

const (
	someID     = "bbbbbbbbbb"
	someSecret = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"
	someText   = "bunsen." + someID + "." + someSecret
)

// The text is what machines are configured with: it must not change from one version to the next.
func TestTheTextOfATokenIsKnown(t *testing.T) {
	tok := fresh(t, 1)
	if tok.String() != someText {
		t.Errorf("the token of ones reads %s", tok.String())
	}
	// The same as `printf %s SECRET | sha256sum` prints.
	if want := "56d5fa7333f6d747db42c239407e5da4c32f4c79f35d092b134fd35a402d9c5c"; tok.Hash() != want {
		t.Errorf("its hash is %s, want %s", tok.Hash(), want)
	}
}

// Two tokens never have anything in common, and each reads back.
func TestEveryTokenIsAnother(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		tok, err := join.NewToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if seen[tok.ID] || seen[tok.Secret] || seen[tok.Hash()] {
			t.Fatalf("%s was there before", tok.ID)
		}
		seen[tok.ID], seen[tok.Secret], seen[tok.Hash()] = true, true, true
		if got, err := join.ParseToken(tok.String()); err != nil || got != tok {
			t.Fatalf("token %s reads back as %s: %v", tok.ID, got.ID, err)
		}
		if !join.IsID(tok.ID) {
			t.Errorf("%s is no id", tok.ID)
		}
	}
}

func TestWithoutRandomnessThereIsNoToken(t *testing.T) {
	if tok, err := join.NewToken(io.LimitReader(rand.Reader, 41)); err == nil || tok != (join.Token{}) {
		t.Errorf("%v, %v", tok, err)
	}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestWhatOfARequestIsAToken(t *testing.T) {
	for sentence, c := range map[string]struct {
		header string
		want   join.TokenReason
	}{
		"a bearer is a token":                                  {"Bearer " + someText, ""},
		"the scheme's case does not matter":                    {"bEARER " + someText, ""},
		"more than one space does not matter":                  {"Bearer   " + someText, ""},
		"a user and password of a URL are a token":             {basic(someID, someSecret), ""},
		"a password that is the whole token will do":           {basic(someID, someText), ""},
		"and needs no user":                                    {basic("", someText), ""},
		"no header at all is no token":                         {"", join.Missing},
		"a scheme alone is no token":                           {"Bearer", join.Malformed},
		"nor is the token without a scheme":                    {someText, join.Malformed},
		"nor with a scheme that we do not know":                {"Digest " + someText, join.Malformed},
		"the user may not be another token's id":               {basic("cccccccccc", someText), join.Malformed},
		"the password alone has no id":                         {basic("", someSecret), join.Malformed},
		"something may not stand behind it":                    {"Bearer " + someText + " ", join.Malformed},
		"a token of somebody else's is none":                   {"Bearer abcdef.0123456789abcdef", join.Malformed},
		"upper case in the id is none":                         {"Bearer bunsen.BBBBBBBBBB." + someSecret, join.Malformed},
		"an id with a digit that base32 lacks is none":         {"Bearer bunsen.bbbbbbbbb1." + someSecret, join.Malformed},
		"a shorter id is none":                                 {"Bearer bunsen.bbbbbbbbb." + someSecret, join.Malformed},
		"a secret with a character less is none":               {"Bearer " + someText[:len(someText)-1], join.Malformed},
		"a secret with one more is none":                       {"Bearer " + someText + "A", join.Malformed},
		"a secret that says the same in other words is none":   {"Bearer " + someText[:len(someText)-1] + "F", join.Malformed},
		"a secret of ordinary base64 is none":                  {"Bearer bunsen." + someID + "." + strings.Repeat("+", 42) + "A", join.Malformed},
		"a line break in the secret is none":                   {"Bearer bunsen." + someID + "." + someSecret[:42] + "\n", join.Malformed},
		"a fourth part is none":                                {"Bearer " + someText + ".x", join.Malformed},
		"credentials that are no base64 are none":              {"Basic " + someText, join.Malformed},
		"credentials without a colon are none":                 {"Basic " + base64.StdEncoding.EncodeToString([]byte(someID)), join.Malformed},
		"credentials that go on for ever are none":             {basic(someID, strings.Repeat("A", 1<<20)), join.Malformed},
		"credentials with their padding left out are none":     {strings.TrimRight(basic("", someText), "="), join.Malformed},
		"credentials of an id and another id's token are none": {basic(someID, "bunsen.cccccccccc."+someSecret), join.Malformed},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := join.FromHeader(c.header)
			var refusal *join.InvalidError
			switch errors.As(err, &refusal); {
			case c.want == "" && (err != nil || got.String() != someText):
				t.Errorf("%s: %v", got.ID, err)
			case c.want != "" && (refusal == nil || refusal.Reason != c.want || got != join.Token{}):
				t.Errorf("%s: %v, want %s", got.ID, err, c.want)
			case c.want != "" && refusal.HTTPStatus() != 401:
				t.Errorf("status %d", refusal.HTTPStatus())
			}
		})
	}
}

// A token that is printed by mistake shows its id, however it is printed.
func TestATokenThatSlipsIntoALogGivesNothingAway(t *testing.T) {
	tok := fresh(t, 1)
	data, err := json.Marshal(map[string]any{"token": tok, "list": []*join.Token{&tok}})
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{
		string(data), fmt.Sprint(tok), fmt.Sprint(&tok), fmt.Sprintf("%+v %#v %s %q %x", tok, tok, tok, tok, tok),
		fmt.Sprintf("%v", struct{ T join.Token }{tok}), fmt.Errorf("with %v", tok).Error(),
	} {
		if strings.Contains(printed, someSecret) || !strings.Contains(printed, someID) {
			t.Errorf("printed: %s", printed)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		someText, "bunsen..", "", "bunsen." + someID + "." + someSecret[:42] + "F",
		"\x00.\xff.", "Bearer " + someText, basic(someID, someSecret), basic("", someText), "Basic =", "basic   ",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if tok, err := join.ParseToken(text); err == nil && tok.String() != text {
			t.Errorf("%q is read as %q", text, tok.String())
		} else if err != nil && err.Error() != (&join.InvalidError{Reason: join.Malformed}).Error() {
			t.Errorf("%q: the error tells of the text: %v", text, err)
		}
		tok, err := join.FromHeader(text)
		if err != nil {
			if got := err.Error(); got != (&join.InvalidError{Reason: join.Malformed}).Error() && text != "" {
				t.Errorf("%q: the error tells of the header: %v", text, err)
			}
			return
		}
		if again, err := join.ParseToken(tok.String()); err != nil || again != tok {
			t.Errorf("%q has a token that is none: %q", text, tok.String())
		}
	})
}
