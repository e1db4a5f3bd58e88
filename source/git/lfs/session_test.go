package lfs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
		"127.9.9.9:443": true, "[::1]:443": true, "[::ffff:127.0.0.1]:443": true, "169.254.169.254:80": true,
		"[fe80::1%eth0]:443": true,
		"0.0.0.0:443":        true, "[::]:443": true, "224.0.0.1:443": true, "no address": true, "10.0.0.1:443": false,
		"192.0.2.1:443": false, "[2001:db8::1]:443": false,
	} {
		if err := refuseLocal("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestOtherHostsSeeNoClientCertificate: the client certificate of the Secret is a credential.
func TestOtherHostsSeeNoClientCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	at, err := source.ParseURL("https://git.example.org/cfg")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Address: at, Secret: map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for i, want := range []int{1, 0, 0} { // own, direct, proxied
		if got := len(s.transports[i].TLSClientConfig.Certificates); got != want {
			t.Errorf("client %d has %d certificates, want %d", i, got, want)
		}
	}
}
