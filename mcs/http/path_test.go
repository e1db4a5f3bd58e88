package http

import "testing"

// TestAPathNamesOnePoolInOneWay: rules of proxies for paths would be passed by others.
func TestAPathNamesOnePoolInOneWay(t *testing.T) {
	h := openRoutes(filled(t))
	for path, want := range map[string]int{
		"/config/worker":     200,
		"/config/x/worker":   404,
		"/config/x%2Fworker": 404,
		"/config/worker/":    404,
		"/config/worker%2F":  404,
		"/config/%2Fworker":  404,
		"/config/":           404,
	} {
		if got := ask(h, "GET", path, "Accept", accept+"3.4.0"); got.StatusCode != want {
			t.Errorf("%s is answered %d, want %d", path, got.StatusCode, want)
		}
	}
	for _, path := range []string{"/config//worker", "/config/x/../worker", "//config/worker"} {
		if got := ask(h, "GET", path, "Accept", accept+"3.4.0"); got.StatusCode == 200 {
			t.Errorf("%s is answered with a config", path)
		}
	}
}
