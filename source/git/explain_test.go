package git

import (
	"errors"
	"strings"
	"testing"
)

func TestSecretsAreHiddenInEveryForm(t *testing.T) {
	hide := secrets{"p@ss/word", "p%40ss%2Fword"}
	got := hide.removeFrom("https://me:p%40ss%2Fword@host: p@ss/word refused")
	if want := "https://me:***@host: *** refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheSameFailureHasTheSameWords(t *testing.T) {
	r := &Remote{url: "https://host/x"}
	for _, port := range []string{"40812", "51744"} {
		err := r.explain(t.Context(), "fetching",
			errors.New("read tcp 10.0.0.7:"+port+"->192.0.2.1:443: read: connection reset by peer"))
		if want := "fetching: read tcp 192.0.2.1:443: read: connection reset by peer"; !strings.HasSuffix(err.Error(),
			want) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}
