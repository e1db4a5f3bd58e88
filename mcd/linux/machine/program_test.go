package machine

import "testing"

func TestMessagesKeepTheirSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"Get https://me:pw@r.example/v2/: 401":                          "Get https://…@r.example/v2/: 401",
		"https://cdn.example/b?sig=a&exp=1 timed out":                   "https://cdn.example/b?… timed out",
		"Authorization: Basic dXNlcjpwYXNz":                             "Authorization: Basic …",
		`{"auths":{"r.example":{"auth":"dXNlcjpwYXNz"}}}`:               `{"auths":{"r.example":{"auth":…}}}`,
		`identity_token=abc.def, retrying`:                              `identity_token=…, retrying`,
		"error: No karg 'nosmt' found":                                  "error: No karg 'nosmt' found",
		"unauthorized: access to the requested resource is not allowed": "unauthorized: access to the requested resource is not allowed",
	} {
		if got := redact(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
