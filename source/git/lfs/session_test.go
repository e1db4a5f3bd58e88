package lfs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source"
)

// TestANameOfThisMachine: a name that resolves to an address of this machine leads to no connection.
func TestANameOfThisMachine(t *testing.T) {
	asked := false
	web := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer web.Close()
	at, err := source.ParseURL("https://git.example.org/cfg")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Address: at})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		res, err := s.direct.Get(strings.Replace(web.URL, "127.0.0.1", host, 1))
		if err == nil {
			_ = res.Body.Close()
		}
		if !errors.Is(err, errLocal) || asked {
			t.Errorf("%s: %v; the server got a request: %t", host, err, asked)
		}
	}
	for address, refused := range map[string]bool{
		"127.9.9.9:443": true, "[::1]:443": true, "[::ffff:127.0.0.1]:443": true, "169.254.169.254:80": true, "[fe80::1%eth0]:443": true,
		"0.0.0.0:443": true, "[::]:443": true, "224.0.0.1:443": true, "no address": true, "10.0.0.1:443": false, "192.0.2.1:443": false, "[2001:db8::1]:443": false,
	} {
		if err := refuseLocal("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
}
