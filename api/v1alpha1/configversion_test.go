package v1alpha1_test

import (
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestAReportedConfigHasTheFormThatNodesMayWrite: readers of Nodes take what the admission policy lets nodes write.
func TestAReportedConfigHasTheFormThatNodesMayWrite(t *testing.T) {
	form := map[string]*regexp.Regexp{}
	for _, a := range v1alpha1.NodeAnnotations() {
		form[a.Key] = regexp.MustCompile(a.Form)
	}
	texts := []string{
		"", "a", "-", ".", "a-", "-a", "a\n", "é", "\xff", "A", "rendered-worker-0123", "0",
		"g", "a.b-c", "a b",
	}
	for range 2000 {
		text := make([]byte, rand.IntN(5))
		for i := range text {
			text[i] = "abfgz059.-@A\n\xff "[rand.IntN(15)]
		}
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		for what, c := range map[string]struct {
			read            func(map[string]string) v1alpha1.ConfigVersion
			config, secrets string
		}{
			"reported": {v1alpha1.ReportedConfig, v1alpha1.CurrentConfigAnnotation, v1alpha1.CurrentSecretsAnnotation},
			"assigned": {v1alpha1.AssignedConfig, v1alpha1.DesiredConfigAnnotation, v1alpha1.DesiredSecretsAnnotation},
		} {
			got := c.read(map[string]string{c.config: text}).Config == text
			if want := form[c.config].MatchString(text); got != want {
				t.Errorf("%s config %q is read: %t, want %t", what, text, got, want)
			}
			got = c.read(map[string]string{c.config: "a", c.secrets: text}).Secrets == text
			if want := form[c.secrets].MatchString(text); got != want {
				t.Errorf("%s revision %q is read: %t, want %t", what, text, got, want)
			}
		}
	}
}
